"""Run jobs on this machine, in several processes that share the cores.

A process that dies (killed, out of memory) is replaced, and its job resumes from its checkpoint.
The same happens to a process without progress for ``stall_seconds``, if that is set.
If the driver itself dies, its processes exit at once.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from shiftproof.core.cores import choose_workers, cores, threads_of_each
from shiftproof.sweeps.executors.base import (
    POLL_SECONDS,
    Event,
    Executor,
    Listener,
    StepReporter,
    WorkerPool,
    outcome,
    run_jobs,
    without_signals,
)
from shiftproof.sweeps.jobs import DatasetCache, Job
from shiftproof.sweeps.store import SweepFolder
from shiftproof.training.loop import RunResult, train


class LocalExecutor(Executor):
    """Runs jobs in ``asked`` processes, by default as many as cores and memory allow.

    The processes share the cores, unless ``threads`` sets the number of threads of each.
    """

    def __init__(
        self,
        asked: int | None = None,
        threads: int | None = None,
        stall_seconds: float | None = None,
    ) -> None:
        self._asked = asked
        self._threads = threads
        self.threads = threads or threads_of_each(asked or cores())
        self._stall_seconds = stall_seconds

    def workers(self, jobs: Sequence[Job], memory: int) -> int:
        """Return the number of processes."""
        return choose_workers(self._asked, memory)

    def run(
        self, jobs: Sequence[Job], folder: SweepFolder, listener: Listener, memory: int
    ) -> None:
        """Run jobs, with the cores divided among the processes."""
        workers = self.workers(jobs, memory)
        threads = self._threads or threads_of_each(workers)
        run_jobs(_Processes(folder, workers, threads, self._stall_seconds), jobs, listener)


@dataclass
class _Worker:
    process: BaseProcess
    line: Connection
    job: Job | None = None
    training: bool = False
    heard: float = 0.0
    stalled: bool = False


class _Processes(WorkerPool):
    """The worker processes and their jobs."""

    def __init__(
        self, folder: SweepFolder, size: int, threads: int, stall_seconds: float | None = None
    ) -> None:
        # Not fork: a copy of a process whose threads hold locks may deadlock.
        self._context = multiprocessing.get_context("spawn")
        self._arguments = (str(folder.path), threads)
        self._size = size
        self._stall_seconds = stall_seconds
        self._workers: list[_Worker] = []

    def busy(self) -> bool:
        return any(worker.job is not None for worker in self._workers)

    def has_room(self) -> bool:
        return sum(worker.job is not None for worker in self._workers) < self._size

    def submit(self, job: Job) -> None:
        """Give a job to an idle process."""
        idle = [worker for worker in self._workers if worker.job is None]
        worker = idle[0] if idle else self._start()
        worker.job, worker.training, worker.heard = job, False, time.monotonic()
        with contextlib.suppress(OSError):  # the process has died; `poll` will notice
            worker.line.send(job)

    def poll(self) -> list[Event]:
        """Wait briefly, and return new events."""
        by_line = {worker.line: worker for worker in self._workers}
        events = []
        for line in wait(list(by_line), timeout=POLL_SECONDS):
            worker = by_line[line]  # type: ignore[index]
            try:
                event: Event = worker.line.recv()
            except (EOFError, OSError):
                self._workers.remove(worker)
                worker.process.join()
                if worker.job is not None:
                    events.append(self._death(worker, worker.job))
                continue
            worker.heard = time.monotonic()
            worker.training |= event.kind == "progress"
            if event.kind in ("ended", "failed"):
                worker.job = None
            events.append(event)
        self._end_stalled()
        return events

    def stop(self) -> None:
        """Ask each training process, once, to stop after its current step."""
        for worker in self._workers:
            if worker.job is not None and worker.training:
                worker.process.terminate()
                worker.training = False

    def close(self) -> None:
        """End all processes."""
        for worker in self._workers:
            worker.line.close()  # ends a process that waits for a job
            if worker.job is not None:
                worker.process.kill()
        for worker in self._workers:
            worker.process.join()

    def _end_stalled(self) -> None:
        """Kill stalled processes; `poll` notices their death."""
        if self._stall_seconds is None:
            return
        for worker in self._workers:
            silent = time.monotonic() - worker.heard
            if worker.job is not None and not worker.stalled and silent > self._stall_seconds:
                worker.stalled = True
                worker.process.kill()

    def _death(self, worker: _Worker, job: Job) -> Event:
        code = worker.process.exitcode
        how = f"by {signal.Signals(-code).name}" if code and code < 0 else f"with code {code}"
        reason = f"its process ended {how}; with SIGKILL the machine may be short of memory"
        if worker.stalled:
            reason = f"it made no progress for {self._stall_seconds:g} seconds (`stall_seconds`)"
        return Event("failed", job, status="died", reason=reason)

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs, *self._arguments), daemon=True)
        process.start()
        theirs.close()
        worker = _Worker(process, ours)
        self._workers.append(worker)
        return worker


# --- in the worker process --------------------------------------------------------------------


def _work(line: Connection, sweep: str, threads: int) -> None:
    """Run jobs until the connection closes."""
    threading.Thread(target=_end_with_the_driver, daemon=True).start()
    torch.set_num_threads(threads)
    folder = SweepFolder(Path(sweep))
    cache = DatasetCache()
    with without_signals():
        while True:
            try:
                job: Job = line.recv()
            except (EOFError, OSError):
                return
            line.send(Event("started", job))
            line.send(_run(job, folder, cache, line))


def _run(job: Job, folder: SweepFolder, cache: DatasetCache, line: Connection) -> Event:
    def work() -> RunResult:
        dataset = cache.get(job)
        reporter = StepReporter(lambda step: line.send(Event("progress", job, step)))
        run = folder.prepare(job)
        return train(job.config, dataset, run, reporter, workers=1)

    return outcome(job, work)


def _end_with_the_driver() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
    os._exit(1)
