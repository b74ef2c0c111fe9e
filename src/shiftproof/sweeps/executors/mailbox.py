"""Where runs on a cluster leave what is new, beside the driver.

It has a process of its own, which starts fast and stays small: nothing here needs torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shiftproof.sweeps.executors.parcels import Files


class Mailbox:
    """Keeps the newest files of every attempt until the driver comes; an actor of Ray."""

    def __init__(self) -> None:
        self._parcels: dict[int, tuple[int, Files]] = {}
        self._stopping = False

    def deliver(self, attempt: int, step: int, files: Files) -> bool:
        """Take files of an attempt that is at ``step``; return whether it shall stop."""
        _, older = self._parcels.get(attempt, (0, {}))
        self._parcels[attempt] = (step, {**older, **files})
        return self._stopping

    def collect(self, stopping: bool) -> dict[int, tuple[int, Files]]:
        """Return, by attempt, the step and what was left since the last time."""
        self._stopping = stopping
        collected, self._parcels = self._parcels, {}
        return collected
