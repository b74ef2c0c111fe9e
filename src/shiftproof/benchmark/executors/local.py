"""Jobs on this machine: a few processes, each with its share of the threads.

A process that dies (killed, out of memory) is replaced, and its job goes on from its checkpoint.
Should the driver itself die, its processes notice at once and end: nobody would listen to them.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from torch import Tensor

from shiftproof.benchmark.executors.base import Event, Listener
from shiftproof.benchmark.jobs import Job
from shiftproof.benchmark.store import SweepFolder
from shiftproof.data import DomainDataset
from shiftproof.errors import RunConflict, ShiftproofError
from shiftproof.training.config import RunConfig
from shiftproof.training.loop import Observer, train

# A job whose process has died this often is given up.
MOST_DEATHS = 3
# How often a run says how far it is, and the driver looks at the clock.
TELL_SECONDS = 1.0


def run_locally(
    jobs: Sequence[Job],
    folder: SweepFolder,
    listener: Listener,
    workers: int,
    threads: int,
    checkpoint_seconds: float = 5.0,
) -> None:
    """Run jobs in ``workers`` processes of ``threads`` threads; return when all have ended.

    When ``listener`` says so, the runs stop after their current step, with a checkpoint.
    """
    crew = _Crew(folder, workers, threads, checkpoint_seconds)
    waiting = deque(jobs)
    deaths: Counter[str] = Counter()
    stopping = False
    try:
        while waiting or crew.busy():
            while waiting and not stopping and crew.has_room():
                job = waiting.popleft()
                crew.give(job)
                stopping |= listener(Event("started", job))
            if stopping:
                waiting.clear()
                crew.stop()
            for event in crew.listen():
                if event.kind == "failed" and event.status == "died":
                    deaths[event.job.id] += 1
                    if deaths[event.job.id] < MOST_DEATHS:
                        waiting.append(event.job)
                        continue
                stopping |= listener(event)
            stopping |= listener(None)
    finally:
        crew.dismiss()


@dataclass
class _Worker:
    process: BaseProcess
    line: Connection
    job: Job | None = None
    training: bool = False


class _Crew:
    """The processes, and what each is doing."""

    def __init__(
        self, folder: SweepFolder, size: int, threads: int, checkpoint_seconds: float
    ) -> None:
        # Not fork: a copy of a process whose threads hold locks may never wake up.
        self._context = multiprocessing.get_context("spawn")
        self._arguments = (str(folder.path), threads, checkpoint_seconds)
        self._size = size
        self._workers: list[_Worker] = []

    def busy(self) -> bool:
        return any(worker.job is not None for worker in self._workers)

    def has_room(self) -> bool:
        return sum(worker.job is not None for worker in self._workers) < self._size

    def give(self, job: Job) -> None:
        """Hand a job to a process that has none, if possible one that has its data loaded."""
        idle = [worker for worker in self._workers if worker.job is None]
        worker = idle[0] if idle else self._hire()
        worker.job, worker.training = job, False
        with contextlib.suppress(OSError):  # it has died, which listening will tell
            worker.line.send(job)

    def listen(self) -> list[Event]:
        """Wait a little, and return what was said."""
        by_line = {worker.line: worker for worker in self._workers}
        events = []
        for line in wait(list(by_line), timeout=TELL_SECONDS):
            worker = by_line[line]  # type: ignore[index]
            try:
                event: Event = worker.line.recv()
            except (EOFError, OSError):
                self._workers.remove(worker)
                worker.process.join()
                if worker.job is not None:
                    events.append(_death(worker.job, worker.process.exitcode))
                continue
            worker.training |= event.kind == "progress"
            if event.kind in ("ended", "failed"):
                worker.job = None
            events.append(event)
        return events

    def stop(self) -> None:
        """Ask each that trains, once, to stop after its step; one that loads data is not heard."""
        for worker in self._workers:
            if worker.job is not None and worker.training:
                worker.process.terminate()
                worker.training = False

    def dismiss(self) -> None:
        """End all processes."""
        for worker in self._workers:
            worker.line.close()  # which ends a process that waits for a job
            if worker.job is not None:
                worker.process.kill()
        for worker in self._workers:
            worker.process.join()

    def _hire(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs, *self._arguments), daemon=True)
        process.start()
        theirs.close()
        worker = _Worker(process, ours)
        self._workers.append(worker)
        return worker


def _death(job: Job, code: int | None) -> Event:
    how = f"by {signal.Signals(-code).name}" if code and code < 0 else f"with code {code}"
    reason = f"its process ended {how}; with SIGKILL the machine may be short of memory"
    return Event("failed", job, status="died", reason=reason)


# --- in the process ---------------------------------------------------------------------------


def _work(line: Connection, sweep: str, threads: int, checkpoint_seconds: float) -> None:
    """Do jobs until there are no more."""
    import torch

    # A run notes both and stops; outside a run they mean nothing, for the driver decides.  (Not
    # SIG_IGN: Python complains of a signal that comes while its handler is taken away.)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: None)
    threading.Thread(target=_end_with_the_driver, daemon=True).start()
    torch.set_num_threads(threads)
    folder = SweepFolder(Path(sweep))
    shelf = _Shelf()
    while True:
        try:
            job: Job = line.recv()
        except (EOFError, OSError):
            return
        line.send(_do(job, folder, shelf, line, checkpoint_seconds))


def _do(
    job: Job, folder: SweepFolder, shelf: _Shelf, line: Connection, checkpoint_seconds: float
) -> Event:
    try:
        dataset = shelf.take(job)
        observer = _Teller(line, job)
        run = folder.prepare(job)
        result = train(job.config, dataset, run, observer, checkpoint_seconds, workers=1)
    except RunConflict as error:
        # Another process holds the run: the last moments of one whose driver was killed.
        time.sleep(TELL_SECONDS)
        return Event("failed", job, status="died", reason=str(error))
    except ShiftproofError as error:
        return Event("failed", job, reason=str(error))
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return Event("failed", job, reason=reason, trace=traceback.format_exc())
    accuracy = result.records[-1].get("accuracy", {}) if result.records else {}
    return Event("ended", job, result.step, result.status, result.seconds, dict(accuracy))


class _Shelf:
    """The data of the last job, which the next one often needs again."""

    def __init__(self) -> None:
        self._key: object = None
        self._dataset: DomainDataset | None = None

    def take(self, job: Job) -> DomainDataset:
        key = (job.data, job.trial_seed)
        if self._dataset is None or self._key != key:
            self._dataset = None  # before the new one is there: never two in memory
            self._dataset, self._key = job.data.load(job.trial_seed), key
        return self._dataset


class _Teller(Observer):
    """Tells the driver how far a run is."""

    def __init__(self, line: Connection, job: Job) -> None:
        self._line = line
        self._job = job
        self._told = time.monotonic()

    def begin(self, config: RunConfig, step: int) -> None:
        """Tell where it starts."""
        self._line.send(Event("progress", self._job, step))

    def step(self, step: int, measured: dict[str, Tensor]) -> None:
        """Tell now and then."""
        now = time.monotonic()
        if now - self._told >= TELL_SECONDS:
            self._told = now
            self._line.send(Event("progress", self._job, step))


def _end_with_the_driver() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
    os._exit(1)
