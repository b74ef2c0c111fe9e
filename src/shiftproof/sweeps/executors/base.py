"""What an executor is: it takes jobs and tells what becomes of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from shiftproof.sweeps.jobs import Job
from shiftproof.sweeps.store import SweepFolder

Kind = Literal["started", "progress", "ended", "failed"]
# A job whose process has died this often is given up.
MOST_DEATHS = 3


@dataclass(frozen=True)
class Event:
    """Something that happened to a job.

    ``progress`` says how far it is (``step``); ``ended`` how (``status``: finished, diverged or
    stopped) and after how many ``seconds`` of its own; ``failed`` why.  Failed with the status
    ``died`` (its process ended, perhaps because of the job) or ``lost`` (its machine is gone, which
    is no fault of the job) it can be tried again.
    """

    kind: Kind
    job: Job
    step: int = 0
    status: str = ""
    seconds: float = 0.0
    accuracy: dict[str, float] = field(default_factory=dict)
    reason: str = ""
    trace: str = ""


# Told of every event; returns whether to stop.
Listener = Callable[[Event | None], bool]


class Executor(ABC):
    """A place where jobs are done."""

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


class Crew(ABC):
    """Those who do the jobs of one sweep, wherever they are."""

    @abstractmethod
    def busy(self) -> bool:
        """Whether any has a job."""

    @abstractmethod
    def has_room(self) -> bool:
        """Whether there is someone for another job."""

    @abstractmethod
    def give(self, job: Job) -> None:
        """Hand over a job."""

    @abstractmethod
    def listen(self) -> list[Event]:
        """Wait a little, and return what was said."""

    @abstractmethod
    def stop(self) -> None:
        """Ask all to stop after their step; it may be asked again and again."""

    @abstractmethod
    def dismiss(self) -> None:
        """End all work at once."""


def work_off(crew: Crew, jobs: Sequence[Job], listener: Listener) -> None:
    """Have a crew do all jobs, one that was lost with its process or machine again."""
    waiting = deque(jobs)
    deaths: Counter[str] = Counter()
    stopping = False
    try:
        while waiting or crew.busy():
            while waiting and not stopping and crew.has_room():
                crew.give(waiting.popleft())
            if stopping:
                waiting.clear()
                crew.stop()
            for event in crew.listen():
                if event.kind == "failed" and event.status in ("died", "lost"):
                    deaths[event.job.id] += event.status == "died"
                    if deaths[event.job.id] < MOST_DEATHS:
                        waiting.append(event.job)
                        continue
                if event.status == "stopped" and not (stopping := stopping or listener(None)):
                    waiting.append(event.job)  # somebody else has stopped it
                    continue
                stopping |= listener(event)
            stopping |= listener(None)
    finally:
        crew.dismiss()
