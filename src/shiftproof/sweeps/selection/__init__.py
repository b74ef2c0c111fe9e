"""Model selection methods."""

from shiftproof.sweeps.selection.base import SELECTORS, Needs, Selection, Selector

__all__ = ["SELECTORS", "Needs", "Selection", "Selector"]
