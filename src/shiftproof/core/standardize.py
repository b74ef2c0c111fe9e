"""The ways to standardise each domain by its own rows, and the names of the results.

The names are separate from the computation (`data.within_domain`), so that tables of results, which
need only the names, do not import PyTorch.
"""

from __future__ import annotations

from shiftproof.core.errors import UnknownName

NONE, DOMAIN, WHITEN = "none", "domain", "whiten"
# The values of `standardize`, and how results are then described.
ADAPTATION = {NONE: "", DOMAIN: "standardized by domain", WHITEN: "whitened by domain"}


def checked_standardize(asked: str) -> str:
    """Return `asked` if it is a value of `standardize`, or raise with similar names."""
    if asked not in ADAPTATION:
        raise UnknownName("standardize", str(asked), ADAPTATION)
    return asked


def adaptation_title(algorithm: str, standardize: str) -> str:
    """Return the name of an algorithm in results, with its adaptation.

    >>> adaptation_title("best", "none"), adaptation_title("best", "domain")
    ('best', 'best, standardized by domain')
    """
    description = ADAPTATION[checked_standardize(standardize)]
    return f"{algorithm}, {description}" if description else algorithm
