"""Networks: featurizers and heads.  Listing them needs no torch; building one does."""

from shiftproof.models.registry import MODELS

__all__ = ["MODELS"]
