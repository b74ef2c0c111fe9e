"""The rules for class weights; `training.sample_weights` computes the weights."""

from __future__ import annotations

from shiftproof.core.errors import UnknownName

UNWEIGHTED, BALANCED = "none", "balanced"
CLASS_WEIGHTS = (UNWEIGHTED, BALANCED)


def checked_class_weight(asked: str) -> str:
    """Return `asked` if it is a rule for class weights, or raise."""
    if asked not in CLASS_WEIGHTS:
        raise UnknownName("class_weight", asked, CLASS_WEIGHTS)
    return asked
