"""What an executor is: it takes jobs, and reports what happens to them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from shiftproof.sweeps.jobs import Job
from shiftproof.sweeps.store import SweepFolder

Kind = Literal["started", "progress", "ended", "failed"]
# A job whose process has died so often has failed.
MOST_DEATHS = 3


@dataclass(frozen=True)
class Event:
    """Something that happened to a job.

    ``progress`` has the current ``step``; ``ended`` the ``status`` (finished, diverged or stopped)
    and the ``seconds`` of the job; ``failed`` the reason.  Failed with the status ``died`` (its
    process ended, perhaps because of the job) or ``lost`` (its machine is gone) it can be tried
    again.
    """

    kind: Kind
    job: Job
    step: int = 0
    status: str = ""
    seconds: float = 0.0
    accuracy: dict[str, float] = field(default_factory=dict)
    reason: str = ""
    trace: str = ""


# Called with every event; returns whether to stop.
Listener = Callable[[Event | None], bool]


class Executor(ABC):
    """A place where jobs are run."""

    # Threads of a run, as far as they are known before its memory is.
    threads: int = 1

    @abstractmethod
    def workers(self, jobs: Sequence[Job], memory: int) -> int:
        """Return how many of some jobs run at once; ``memory`` is what one takes, in bytes."""

    @abstractmethod
    def run(
        self, jobs: Sequence[Job], folder: SweepFolder, listener: Listener, memory: int
    ) -> None:
        """Run jobs, whose files are in ``folder``; return when all have ended.

        When ``listener`` says so, the runs stop after their current step, with a checkpoint.
        """


class WorkerPool(ABC):
    """The workers of one sweep, wherever they are."""

    @abstractmethod
    def busy(self) -> bool:
        """Whether any worker has a job."""

    @abstractmethod
    def has_room(self) -> bool:
        """Whether a worker is free."""

    @abstractmethod
    def submit(self, job: Job) -> None:
        """Give a job to a worker."""

    @abstractmethod
    def poll(self) -> list[Event]:
        """Wait a little, and return the events."""

    @abstractmethod
    def stop(self) -> None:
        """Ask all workers to stop after their step; may be called several times."""

    @abstractmethod
    def close(self) -> None:
        """End all work at once."""


def run_jobs(pool: WorkerPool, jobs: Sequence[Job], listener: Listener) -> None:
    """Run all jobs; one that was lost with its process or machine is run again."""
    waiting = deque(jobs)
    deaths: Counter[str] = Counter()
    stopping = False
    try:
        while waiting or pool.busy():
            while waiting and not stopping and pool.has_room():
                pool.submit(waiting.popleft())
            if stopping:
                waiting.clear()
                pool.stop()
            for event in pool.poll():
                if event.kind == "failed" and event.status in ("died", "lost"):
                    deaths[event.job.id] += event.status == "died"
                    if deaths[event.job.id] < MOST_DEATHS:
                        waiting.append(event.job)
                        continue
                if event.status == "stopped" and not (stopping := stopping or listener(None)):
                    waiting.append(event.job)  # something else stopped it
                    continue
                stopping |= listener(event)
            stopping |= listener(None)
    finally:
        pool.close()
