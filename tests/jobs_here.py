"""Sweeps that run their jobs in this process: another one takes seconds to import torch."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from _internals import DatasetCache, Event, Job, Listener, SweepFolder, sweeps_local as local


class Line:
    """The way to the listener.  What passes is pickled, as it is between two processes."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def send(self, event: Event) -> bool:
        return self._listener(pickle.loads(pickle.dumps(event)))


def run(
    self: local.LocalExecutor,
    jobs: Sequence[Job],
    folder: SweepFolder,
    listener: Listener,
    memory: int,
) -> None:
    """In place of `LocalExecutor.run`: what a worker process does, one job after the other."""
    line: Any = Line(listener)
    cache = DatasetCache()
    for job in pickle.loads(pickle.dumps(list(jobs))):
        line.send(Event("started", job))
        if line.send(local._run(job, folder, cache, line)):
            return


@contextlib.contextmanager
def jobs_in_this_process() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local.LocalExecutor, "run", run)
        yield
