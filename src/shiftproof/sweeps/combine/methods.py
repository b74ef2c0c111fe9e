"""Methods for combining the draws of a sweep."""

from __future__ import annotations

from collections.abc import Sequence

from shiftproof.core.errors import UnknownName

ENSEMBLE, UNIFORM, GREEDY = "ensemble", "uniform-soup", "greedy-soup"
METHODS = (ENSEMBLE, UNIFORM, GREEDY)
SOUPS = (UNIFORM, GREEDY)
# Averages over the steps of a run; an ensemble of these is an ensemble of averages (EoA).
MOVING_AVERAGES = ("ema", "swad")


def combine_methods(asked: str | Sequence[str]) -> tuple[str, ...]:
    """Return the requested methods without duplicates; raise if one is unknown."""
    names = [asked] if isinstance(asked, str) else list(asked)
    for name in names:
        if name not in METHODS:
            raise UnknownName("combine", name, METHODS)
    return tuple(dict.fromkeys(names))
