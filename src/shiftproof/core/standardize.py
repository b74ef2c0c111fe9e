"""The ways to standardise the rows of a domain by themselves, and what results are then called.

The names are apart from the computation (`data.within_domain`), so that tables of results, which
need the names only, are made without importing PyTorch.
"""

from __future__ import annotations

from shiftproof.core.errors import UnknownName

NONE, DOMAIN, WHITEN, AUTO = "none", "domain", "whiten", "auto"
# What `standardize` may be, and what results are then called.  With `auto`, held-out domains judge
# models of both views of the rows: as they are, and standardised by domain.
ADAPTATION = {
    NONE: "",
    DOMAIN: "standardized by domain",
    WHITEN: "whitened by domain",
    AUTO: "standardized by domain where that helps",
}


def checked_standardize(asked: str) -> str:
    """Return `asked` if it is a way to standardise; raise with the nearest one if not."""
    if asked not in ADAPTATION:
        raise UnknownName("standardize", str(asked), ADAPTATION)
    return asked


def adaptation_title(algorithm: str, standardize: str) -> str:
    """Return what the results of an algorithm are called.

    >>> adaptation_title("best", "none"), adaptation_title("best", "domain")
    ('best', 'best, standardized by domain')
    """
    said = ADAPTATION[checked_standardize(standardize)]
    return f"{algorithm}, {said}" if said else algorithm
