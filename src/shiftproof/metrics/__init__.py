"""What a prediction is worth: metrics with their errors, and the outputs that they are taken of.

The names of metrics can be checked without importing NumPy.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from shiftproof import LazyPackage
from shiftproof.core.errors import InvalidValue, nearest
from shiftproof.core.registry import Registry
from shiftproof.core.types import REGRESSION, Kind

if TYPE_CHECKING:
    from shiftproof.metrics.base import Metric as Metric
    from shiftproof.metrics.outputs import NumberOutputs as NumberOutputs, Outputs as Outputs


class Metrics(Registry["Metric"]):
    """The registry of metrics, in the order in which they were registered."""

    def get(self, name: str) -> Metric:
        """Return the metric called `name`, or raise with similar names."""
        metric = super().get(name)
        return metric if metric.name else replace(metric, name=name)

    def of(self, task: Kind | None = None, *, expected: bool = True) -> tuple[str, ...]:
        """Return the names of the metrics of a task, or of all; only those that are `expected`."""
        list(self)  # registers them
        return tuple(
            name
            for name, metric in self._entries.items()
            if (task is None or task in metric.tasks) and (metric.expected or not expected)
        )

    def checked(self, name: str, task: Kind | None = None) -> str:
        """Return the name of a metric of a task, or raise."""
        if name not in (known := self.of(task)):
            where = " for regression" if task == REGRESSION else ""
            raise InvalidValue(f"`metric` {name!r} is unknown{where}; {nearest(name, known)}")
        return name


METRICS = Metrics("metric", package="shiftproof.metrics", plugins="shiftproof.metrics")

_HOMES = {
    "Metric": "shiftproof.metrics.base",
    **dict.fromkeys(("NumberOutputs", "Outputs"), "shiftproof.metrics.outputs"),
}
__all__ = ["METRICS", *sorted(_HOMES)]

sys.modules[__name__].__class__ = LazyPackage
