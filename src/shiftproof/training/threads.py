"""The number of torch threads in a run, chosen in its first steps by the duration of a step.

Threads that share a short operation wait for each other longer than they compute.  For small
networks, several threads are at best a little faster on an idle machine, and many times slower on a
busy one.  So a run starts on one thread.  If a step takes less than `SHORT`, it stays there; if it
takes longer than `LONG`, it continues on all free cores; in between, two steps on all free cores
are compared with one on a single thread.

The choice is part of the checkpoint, so that a resumed run uses the same number.  Sums are split
differently across threads: losses agree up to rounding errors, not to the bit.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import torch

from shiftproof.core.cores import free_cores

# Seconds of a step on one thread: below `SHORT`, more threads do not pay; above `LONG`, they do.
SHORT, LONG = 0.002, 0.1
# Several threads must be faster by this factor, since they take cores from other processes.
GAIN = 0.9
# The steps of the trial: two on one thread, then two on all; the second of each pair counts, since
# the first allocates memory.
PAIR = 2


class ThreadChoice:
    """The number of threads of a run; None until the first steps have determined it.

    `fixed` is a number that was given, or chosen before the run was interrupted.  Without it, at
    most torch's current number of threads is tried, and no more than the free cores.
    """

    def __init__(self, fixed: int | None = None) -> None:
        self.most = fixed or min(free_cores(), torch.get_num_threads())
        self.chosen = self.most if fixed or self.most == 1 else None
        self._steps = 0
        self._alone = 0.0

    @classmethod
    def none(cls) -> ThreadChoice:
        """Return a fixed choice: torch's current number of threads."""
        return cls(torch.get_num_threads())

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Restore torch's number of threads on exit."""
        before = torch.get_num_threads()
        try:
            yield
        finally:
            torch.set_num_threads(before)

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Run one step with the chosen number of threads, or with the one being tried."""
        if self.chosen is not None:
            if torch.get_num_threads() != self.chosen:
                torch.set_num_threads(self.chosen)
            yield
            return
        alone = self._steps < PAIR
        torch.set_num_threads(1 if alone else self.most)
        wall, own = time.perf_counter(), time.thread_time()
        yield
        self._steps += 1
        # On one thread, count computing time only, not waiting for data or for a core.
        seconds = time.thread_time() - own if alone else time.perf_counter() - wall
        self.judge(seconds)

    def judge(self, seconds: float) -> None:
        """Choose the number after a step of the trial that took `seconds`, if possible."""
        if self._steps == PAIR:
            self._alone = seconds
            if seconds < SHORT:
                self.chosen = 1
            elif seconds > LONG:
                self.chosen = self.most
        elif self._steps == 2 * PAIR:
            self.chosen = self.most if seconds < GAIN * self._alone else 1
