"""How figures are taken: two sides in turn within one process, medians, and peaks of memory."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from ctypes import CDLL
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

Work = Callable[[], object]
_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Figure:
    """One measured ratio, what it should be, and what it was made from."""

    name: str
    what: str
    value: float
    bound: Literal["≤", "≥"]
    target: float
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reached(self) -> bool:
        """Whether the target is met."""
        return self.value <= self.target if self.bound == "≤" else self.value >= self.target

    def to_json(self) -> dict[str, Any]:
        """Return the figure as JSON values."""
        return {**asdict(self), "reached": self.reached}


def seconds_in_turn(
    sides: Mapping[str, Work], rounds: int = 9, warmup: int = 1
) -> dict[str, list[float]]:
    """Return how long each side took in each round; the sides take turns, in changing order."""
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(warmup + rounds):
        for name in list(sides)[:: 1 if turn % 2 else -1]:
            start = time.perf_counter()
            sides[name]()
            if turn >= warmup:
                taken[name].append(time.perf_counter() - start)
    return taken


def ratio_of(taken: Mapping[str, list[float]], upper: str, lower: str) -> float:
    """Return the median over rounds of upper / lower: a machine's pace changes between rounds.

    >>> ratio_of({"a": [2.0, 30.0, 4.0], "b": [1.0, 10.0, 2.0]}, "a", "b")
    2.0
    """
    return statistics.median(a / b for a, b in zip(taken[upper], taken[lower], strict=True))


def medians(taken: Mapping[str, list[float]]) -> dict[str, float]:
    """Return the median seconds of each side, to four digits."""
    return {name: float(f"{statistics.median(values):.4g}") for name, values in taken.items()}


def peak_bytes(work: Work) -> int:
    """Return by how much the resident memory of the process rose at most while ``work`` ran.

    What earlier work left to the allocator is given back first; Linux alone tells the peak.
    """
    gc.collect()
    CDLL(None).malloc_trim(0)
    _CLEAR.write_text("5")  # the peak starts anew
    before = _kilobytes("VmRSS")
    work()
    return 1024 * (_kilobytes("VmHWM") - before)


def can_measure_memory() -> bool:
    """Whether this system tells peaks of memory."""
    return _STATUS.exists() and _CLEAR.exists()


def _kilobytes(name: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise RuntimeError(f"{_STATUS} has no {name}")
