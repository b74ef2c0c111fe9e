"""The rules for the weights of classes; `training.sample_weights` computes them."""

from __future__ import annotations

from shiftproof.core.errors import UnknownName

UNWEIGHTED, BALANCED = "none", "balanced"
CLASS_WEIGHTS = (UNWEIGHTED, BALANCED)


def checked_class_weight(asked: str) -> str:
    """Return the name of a rule for the weights of classes, or raise."""
    if asked not in CLASS_WEIGHTS:
        raise UnknownName("class_weight", asked, CLASS_WEIGHTS)
    return asked
