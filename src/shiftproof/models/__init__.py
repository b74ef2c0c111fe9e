"""Networks: featurizers and heads."""

from shiftproof.models.base import Model, Network
from shiftproof.models.registry import MODELS

__all__ = ["MODELS", "Model", "Network"]
