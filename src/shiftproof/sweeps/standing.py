"""The progress of a sweep, as shown by its driver and readable from any other process.

This module and its imports avoid PyTorch, which takes seconds to import.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from shiftproof.core.errors import DataError
from shiftproof.core.json_values import rebuilt
from shiftproof.core.text import printable
from shiftproof.sweeps.store import SweepFolder

# The final states of a run.
ENDED = ("finished", "diverged", "failed")


@dataclass
class Standing:
    """The progress of a sweep: counts, active runs, remaining time, and the best runs so far."""

    total: int
    counts: Counter[str] = field(default_factory=Counter)
    running: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    best: dict[str, tuple[float, str]] = field(default_factory=dict)
    seconds_left: float | None = None

    @property
    def left(self) -> int:
        """The number of runs that have not ended."""
        return self.total - sum(self.counts[state] for state in ENDED)

    def to_json(self) -> dict[str, Any]:
        """Return the progress as JSON values."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Standing:
        """Restore the output of `to_json`; the values are checked, as the file may be untrusted."""
        running = rebuilt(Mapping[str, tuple[str, int, int]], value["running"])
        best = rebuilt(Mapping[str, tuple[float, str]], value["best"])
        return cls(
            rebuilt(int, value["total"]),
            Counter(rebuilt(Mapping[str, int], value["counts"])),
            {
                key: (printable(title), step, max(1, steps))
                for key, (title, step, steps) in running.items()
            },
            {
                printable(cell): (accuracy, printable(name))
                for cell, (accuracy, name) in best.items()
            },
            rebuilt(float | None, value["seconds_left"]),
        )


class Status(NamedTuple):
    """The last reported progress of a sweep, and whether its process is still running."""

    standing: Standing
    running: bool


def sweep_status(folder: Path) -> Status:
    """Return the status of the sweep in a folder; works from any process."""
    try:
        status = SweepFolder(folder).read_status() if folder.is_dir() else None
        result = status and Status(Standing.from_json(status), status["alive"])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DataError(
            f"{folder / 'status.json'} is damaged; run the sweep again to rewrite it"
        ) from error
    if not result:
        raise DataError(f"{folder} holds no sweep, or one that has not started")
    return result
