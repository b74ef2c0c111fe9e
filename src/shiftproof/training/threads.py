"""How many threads torch uses in a run: chosen in its first steps, by the size of the work.

Threads that share a short operation wait for each other longer than they compute.  On an idle
machine several threads are at best a little faster at small networks; on a busy one they are many
times slower.  So a run begins on one thread.  If a step takes less than `SHORT`, it stays there; if
it takes longer than `LONG`, it goes on with all free cores; in between, two steps on all free cores
are compared with one on a single thread.

The choice is part of the checkpoint, so that a resumed run goes on with the same number.  Sums are
split differently across threads: losses agree to rounding errors, not to the bit.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import torch

from shiftproof.core.cores import free_cores

# Seconds of a step on one thread: below, threads do not pay; above, they always do.
SHORT, LONG = 0.002, 0.1
# Several threads must be faster by this factor: they also take cores from others.
GAIN = 0.9
# The steps of the trial: the first two on one thread, the next two on all; the second of each pair
# counts, since the first prepares memory.
PAIR = 2


class ThreadChoice:
    """The number of threads of a run; None until the first steps have decided it.

    `fixed` is a number that was given, or chosen before the run was interrupted.  Without one, the
    most that is tried is what torch is allowed now, and no more than the free cores.
    """

    def __init__(self, fixed: int | None = None) -> None:
        self.most = fixed or min(free_cores(), torch.get_num_threads())
        self.chosen = self.most if fixed or self.most == 1 else None
        self._steps = 0
        self._alone = 0.0

    @classmethod
    def none(cls) -> ThreadChoice:
        """Return no choice: the number that torch has."""
        return cls(torch.get_num_threads())

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Give torch back the number of threads that it had before."""
        before = torch.get_num_threads()
        try:
            yield
        finally:
            torch.set_num_threads(before)

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Take one step with the number chosen, or with one that is tried."""
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
        # On one thread, what counts is computing, not waiting for data or for a core.
        seconds = time.thread_time() - own if alone else time.perf_counter() - wall
        self.judge(seconds)

    def judge(self, seconds: float) -> None:
        """Decide after a step of the trial that took so long, if it can be decided."""
        if self._steps == PAIR:
            self._alone = seconds
            if seconds < SHORT:
                self.chosen = 1
            elif seconds > LONG:
                self.chosen = self.most
        elif self._steps == 2 * PAIR:
            self.chosen = self.most if seconds < GAIN * self._alone else 1
