"""A measured figure with its target, and peaks of memory."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from ctypes import CDLL
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from shiftproof.paper.measure import Work

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Figure:
    """One measured ratio, its target, and the measurements behind it."""

    name: str
    what: str
    value: float
    bound: Literal["≤", "≥"]
    target: float
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reached(self) -> bool:
        """Whether the target is reached."""
        return self.value <= self.target if self.bound == "≤" else self.value >= self.target

    def to_json(self) -> dict[str, Any]:
        """Return the figure as JSON values."""
        return {**asdict(self), "reached": self.reached}


def peak_bytes(work: Work) -> int:
    """Return the largest rise of the process's resident memory while `work` ran.

    Memory that the allocator still holds from earlier work is released first.  Linux only.
    """
    gc.collect()
    CDLL(None).malloc_trim(0)
    _CLEAR.write_text("5")  # resets the peak
    before = _kilobytes("VmRSS")
    work()
    return 1024 * (_kilobytes("VmHWM") - before)


def can_measure_memory() -> bool:
    """Return whether this system reports peak memory."""
    return _STATUS.exists() and _CLEAR.exists()


def _kilobytes(name: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise RuntimeError(f"{_STATUS} has no {name}")
