"""A mailbox on the driver's machine, to which runs on a cluster send their new files.

It runs in its own process, which starts fast and stays small: nothing here imports torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shiftproof.sweeps.executors.run_files import Files


class Mailbox:
    """Keeps the newest files of every attempt until the driver collects them; a Ray actor."""

    def __init__(self) -> None:
        self._files: dict[int, tuple[int, Files]] = {}
        self._stopping = False

    def deliver(self, attempt: int, step: int, files: Files) -> bool:
        """Store files of an attempt at ``step``; return whether the attempt should stop."""
        _, older = self._files.get(attempt, (0, {}))
        self._files[attempt] = (step, {**older, **files})
        return self._stopping

    def collect(self, stopping: bool) -> dict[int, tuple[int, Files]]:
        """Return, by attempt, the step and the files delivered since the last call."""
        self._stopping = stopping
        collected, self._files = self._files, {}
        return collected
