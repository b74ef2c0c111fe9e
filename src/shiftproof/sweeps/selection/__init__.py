"""Ways to select a run and a step, one file each."""

from shiftproof.sweeps.selection.base import SELECTORS, Needs, Selection, Selector

__all__ = ["SELECTORS", "Needs", "Selection", "Selector"]
