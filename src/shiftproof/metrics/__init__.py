"""What a prediction is worth: metrics with their errors, and the outputs that they are taken of."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from shiftproof import LazyPackage

if TYPE_CHECKING:
    from shiftproof.metrics.base import Metric as Metric
    from shiftproof.metrics.outputs import NumberOutputs as NumberOutputs, Outputs as Outputs
    from shiftproof.metrics.registry import METRICS as METRICS

_HOMES = {
    "METRICS": "shiftproof.metrics.registry",
    "Metric": "shiftproof.metrics.base",
    **dict.fromkeys(("NumberOutputs", "Outputs"), "shiftproof.metrics.outputs"),
}
__all__ = sorted(_HOMES)

sys.modules[__name__].__class__ = LazyPackage
