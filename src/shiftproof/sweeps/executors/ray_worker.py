"""A run on a machine of a Ray cluster."""

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
from shiftproof.sweeps.executors.base import Event
from shiftproof.sweeps.executors.parcels import Files, News, pack, unpack
from shiftproof.sweeps.executors.scratch import scratch
from shiftproof.sweeps.executors.work import Shelf, Teller, deaf, outcome
from shiftproof.sweeps.jobs import Job
from shiftproof.training.loop import RunResult, train
from shiftproof.training.records import Record

# Runs are many: one thread each keeps all cores busy, and gives the same bytes on every machine.
THREADS = 1


class Task(NamedTuple):
    """One attempt at a job: from which files, and who asks for it."""

    job: Job
    attempt: int
    files: Files
    checkpoint_seconds: float
    version: str


# Of a process that does one job after another.
_SHELF = Shelf()


def run_there(task: Task, dataset: DomainDataset | None, mailbox: Any) -> tuple[Event, Files]:
    """Train in a folder of this machine; return how it ended, and all files."""
    torch.set_num_threads(THREADS)
    with deaf(), scratch() as folder:
        run = folder / "run"
        unpack(task.files, run)
        postman = Postman(mailbox, task.attempt, run)

        def work() -> RunResult:
            if shiftproof.__version__ != task.version:
                raise InvalidValue(
                    f"{socket.gethostname()} has Shiftproof {shiftproof.__version__}, and the sweep"
                    f" is of {task.version}; install the same on all machines"
                )
            data = _SHELF.take(task.job) if dataset is None else dataset
            return train(task.job.config, data, run, postman, task.checkpoint_seconds, workers=1)

        return outcome(task.job, work), pack(run)


class Postman(Teller):
    """Sends what is new to the mailbox while a run goes on, and stops it when told."""

    def __init__(self, mailbox: Any, attempt: int, run: Path) -> None:
        super().__init__(self._send)
        self._mailbox = mailbox
        self._attempt = attempt
        self._news = News(run)
        self._sent = mailbox.deliver.remote(attempt, 0, {})

    def record(self, record: Record) -> None:
        """Send it at once."""
        self._send(record["step"])

    def _send(self, step: int) -> None:
        if not ray.wait([self._sent], timeout=0)[0]:
            return  # the last parcel is still on its way: training does not wait for it
        if ray.get(self._sent):
            signal.raise_signal(signal.SIGTERM)  # which a run notes, and stops after its step
        self._sent = self._mailbox.deliver.remote(self._attempt, step, self._news.take())
