"""Execute a run on a machine of a Ray cluster."""

from __future__ import annotations

import signal
import socket
from pathlib import Path
from typing import Any, NamedTuple

import ray
import torch

import shiftproof
from shiftproof.core.errors import InvalidValue
from shiftproof.data import DomainDataset
from shiftproof.sweeps.executors.base import Event, StepReporter, outcome, without_signals
from shiftproof.sweeps.executors.run_files import ChangedFiles, Files, pack, scratch, unpack
from shiftproof.sweeps.jobs import DatasetCache, Job
from shiftproof.training.loop import RunResult, train
from shiftproof.training.records import Record

# With many runs, one thread each keeps all cores busy, and gives the same bytes on every machine.
THREADS = 1


class Task(NamedTuple):
    """One attempt at a job: the files to start from, and the version of the driver."""

    job: Job
    attempt: int
    files: Files
    checkpoint_seconds: float
    version: str


# Kept between jobs: a process runs one job after another.
_CACHE = DatasetCache()


def run_there(task: Task, dataset: DomainDataset | None, mailbox: Any) -> tuple[Event, Files]:
    """Train in a temporary folder of this machine; return the final event and all files."""
    torch.set_num_threads(THREADS)
    with without_signals(), scratch() as folder:
        run = folder / "run"
        unpack(task.files, run)
        sender = FileSender(mailbox, task.attempt, run)

        def work() -> RunResult:
            if shiftproof.__version__ != task.version:
                raise InvalidValue(
                    f"{socket.gethostname()} has Shiftproof {shiftproof.__version__}, but the sweep"
                    f" runs {task.version}; install the same version on all machines"
                )
            data = _CACHE.get(task.job) if dataset is None else dataset
            return train(task.job.config, data, run, sender, task.checkpoint_seconds, workers=1)

        return outcome(task.job, work), pack(run)


class FileSender(StepReporter):
    """Sends new files to the mailbox during a run, and stops the run when asked to."""

    def __init__(self, mailbox: Any, attempt: int, run: Path) -> None:
        super().__init__(self._send)
        self._mailbox = mailbox
        self._attempt = attempt
        self._changed = ChangedFiles(run)
        self._sent = mailbox.deliver.remote(attempt, 0, {})

    def record(self, record: Record) -> None:
        """Send new files at once."""
        self._send(record["step"])

    def _send(self, step: int) -> None:
        if not ray.wait([self._sent], timeout=0)[0]:
            return  # the previous files are still being sent; training does not wait
        if ray.get(self._sent):
            signal.raise_signal(signal.SIGTERM)  # the run handles it and stops after its step
        self._sent = self._mailbox.deliver.remote(self._attempt, step, self._changed.take())
