"""One job in a process of its own: what is done there, whoever has started the process."""

from __future__ import annotations

import contextlib
import signal
import time
import traceback
from collections.abc import Callable, Iterator

from torch import Tensor

from shiftproof.core.errors import RunConflict, ShiftproofError
from shiftproof.data import DomainDataset
from shiftproof.sweeps.executors.base import Event
from shiftproof.sweeps.jobs import Job
from shiftproof.training.config import RunConfig
from shiftproof.training.loop import RunResult
from shiftproof.training.observers import Observer

# How often a run says how far it is, and the driver looks at the clock.
TELL_SECONDS = 1.0


def outcome(job: Job, work: Callable[[], RunResult]) -> Event:
    """Do a job; return how it ended, or why it failed."""
    try:
        result = work()
    except RunConflict as error:
        # Another process holds the run: the last moments of one whose driver was killed.
        time.sleep(TELL_SECONDS)
        return Event("failed", job, status="died", reason=str(error))
    except Exception as error:
        return failure(job, error)
    accuracy = result.records[-1].get("accuracy", {}) if result.records else {}
    return Event("ended", job, result.step, result.status, result.seconds, dict(accuracy))


@contextlib.contextmanager
def deaf() -> Iterator[None]:
    """Within, SIGINT and SIGTERM stop a run, which notes them, and nothing else.

    The driver decides what is to end.  A second one means nothing either.  (Not SIG_IGN: Python
    complains of a signal that comes while its handler is taken away.)
    """
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda number, frame: None) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def failure(job: Job, error: BaseException) -> Event:
    """Return the failure of a job by an error: one line, and the trace if it is no user's."""
    if isinstance(error, ShiftproofError):
        return Event("failed", job, reason=str(error))
    reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return Event("failed", job, reason=reason, trace="".join(traceback.format_exception(error)))


class Shelf:
    """The data of the last job, which the next one often needs again."""

    def __init__(self) -> None:
        self._key: object = None
        self._dataset: DomainDataset | None = None

    def take(self, job: Job) -> DomainDataset:
        """Return the data of a job."""
        key = (job.data, job.trial_seed)
        if self._dataset is None or self._key != key:
            self._dataset = None  # before the new one is there: never two in memory
            self._dataset, self._key = job.data.load(job.trial_seed), key
        return self._dataset


class Teller(Observer):
    """Calls ``tell`` with the step at the beginning of a run, and now and then."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        self._tell = tell
        self._told = time.monotonic()

    def begin(self, config: RunConfig, step: int) -> None:
        """Tell where it starts."""
        self._tell(step)

    def step(self, step: int, measured: dict[str, Tensor]) -> None:
        """Tell now and then."""
        now = time.monotonic()
        if now - self._told >= TELL_SECONDS:
            self._told = now
            self._tell(step)
