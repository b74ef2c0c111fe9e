"""Networks: featurizers and heads.  Names, and so torch, are imported on first use."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from shiftproof import LazyPackage

if TYPE_CHECKING:
    from shiftproof.models.base import Model as Model, Network as Network
    from shiftproof.models.registry import MODELS as MODELS

_HOMES = dict.fromkeys(("Model", "Network"), "shiftproof.models.base") | {
    "MODELS": "shiftproof.models.registry"
}
__all__ = sorted(_HOMES)

sys.modules[__name__].__class__ = LazyPackage
