"""Shiftproof: train on several domains, hold up on one never seen, and find out what shifts.

The names below are imported when they are first asked for: ``import shiftproof`` itself is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from shiftproof.inference.model import TrainedModel as TrainedModel
    from shiftproof.matching import InterDomainMatching as InterDomainMatching
    from shiftproof.sklearn import ShiftproofClassifier as ShiftproofClassifier

_HOMES = {
    "InterDomainMatching": "shiftproof.matching",
    "ShiftproofClassifier": "shiftproof.sklearn",
    "TrainedModel": "shiftproof.inference.model",
}
__all__ = ["InterDomainMatching", "ShiftproofClassifier", "TrainedModel", "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'shiftproof' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
