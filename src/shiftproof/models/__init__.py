"""Networks: featurizers and heads."""

from shiftproof.models.base import MODELS, Model, Network

__all__ = ["MODELS", "Model", "Network"]
