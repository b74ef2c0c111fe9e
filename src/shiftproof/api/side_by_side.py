"""Parallel runs in several processes; each process takes the next waiting run.

Results are written to the folders of the runs, so processes return nothing.  When all are done, the
caller reads each run.  It repeats runs whose process failed, so that their error is raised.  This
is for algorithms that are fitted at once, which have no checkpoint to lose with a process.

The processes end with the caller, however it ends.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from shiftproof.api.train import train
from shiftproof.api.trained_run import TrainedRun
from shiftproof.core.cores import (
    allowed_threads,
    choose_workers,
    share_of_cores,
    start_process,
    threads_of_each,
)
from shiftproof.data import DomainDataset
from shiftproof.training.observers import Observer

# Seconds of work before other processes are started, since starting one takes seconds.
PATIENCE = 1.0
# Memory of a process besides the data, and its number of copies of the data (raw, encoded, …).
BYTES, COPIES = 1_000_000_000, 5
# The name of the progress over all runs, for the observer.
DONE = "domains held out"
PROGRAM = f"from {__name__} import main; main()"


class Waiting(NamedTuple):
    """A waiting run: its held-out domain, and its folder, if one is given."""

    domain: str
    folder: Path | None


Event = tuple[str, tuple[Any, ...]]


def train_together(
    runs: Sequence[Waiting],
    dataset: DomainDataset,
    settings: Mapping[str, Any],
    observer: Observer,
    processes: int,
) -> list[TrainedRun]:
    """Train all runs on a dataset with the given settings of `train`; return them in order.

    If the user interrupts, the interrupted run is returned last, and runs of other processes are
    left out; the same call repeats them.
    """
    waiting, left = deque(runs), set[Waiting]()
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    made: dict[Waiting, TrainedRun] = {}
    ended: list[Waiting] = []

    def end(run: Waiting) -> None:
        ended.append(run)
        events.put(("progress", (DONE, len(ended), len(runs))))

    others = [_Process(dataset, settings, waiting, left, events, end) for _ in range(processes - 1)]

    def make(run: Waiting) -> bool:
        made[run] = train(
            dataset, test_domains=run.domain, out=run.folder, observer=observer, **settings
        )
        if made[run].status == "stopped":
            return False
        if run not in left:
            end(run)
        return True

    with share_of_cores(threads_of_each(processes)), contextlib.ExitStack() as stack:
        for other in others:
            stack.enter_context(other)
        while waiting:
            with contextlib.suppress(IndexError):  # another process took the last run
                if not make(waiting.popleft()):
                    return list(made.values())
            _tell(events, observer)
        while any(other.busy for other in others):
            _tell(events, observer, seconds=0.1)
    for run in runs:
        if run in left:
            if not make(run):
                return list(made.values())
            observer.begin(made[run].config, 0)
            observer.record(made[run].metrics)
    return [made[run] for run in runs]


def processes_for(dataset: DomainDataset, runs: int) -> int:
    """Return the number of processes for this many runs, limited by cores and memory."""
    size = sum(domain.nbytes for domain in dataset.domains if not domain.is_lazy)
    return min(choose_workers(None, BYTES + COPIES * size), runs)


def _tell(events: queue.SimpleQueue[Event], observer: Observer, seconds: float = 0.0) -> None:
    """Pass the events of other processes to the observer, in the calling thread."""
    with contextlib.suppress(queue.Empty):
        while True:
            name, arguments = events.get(timeout=seconds) if seconds else events.get_nowait()
            getattr(observer, name)(*arguments)


class _Process:
    """A worker process, and the thread that sends it one run after another."""

    def __init__(
        self,
        dataset: DomainDataset,
        settings: Mapping[str, Any],
        waiting: deque[Waiting],
        left: set[Waiting],
        events: queue.SimpleQueue[Event],
        end: Callable[[Waiting], None],
    ) -> None:
        self.busy = False
        self._end = end
        self._work = (dataset, dict(settings))
        self._waiting, self._left, self._events = waiting, left, events
        self._ending = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._drive, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *ended: object) -> None:
        self._ending.set()
        if self._process is not None:
            self._process.kill()
        self._thread.join()

    def _drive(self) -> None:
        if self._ending.wait(PATIENCE) or not self._waiting:
            return
        # Only the caller receives Ctrl-C; it then ends this process.
        self._process = process = start_process(PROGRAM, new_session=True)
        # Suppression includes closing the pipe, which fails if the process was killed.
        with contextlib.suppress(EOFError, OSError, pickle.UnpicklingError), process:
            try:
                self._talk(process.stdin, process.stdout)  # type: ignore[arg-type]
            finally:
                self.busy = False
                process.kill()

    def _talk(self, to: BinaryIO, answers: BinaryIO) -> None:
        _send(to, (*self._work, allowed_threads()))
        taken: Waiting | None = None
        while not self._ending.is_set():
            event: Event | None = pickle.load(answers)  # trusted: from our own process
            if event is not None:
                self._events.put(event)
                continue
            if taken is not None:
                self._end(taken)
            self.busy = True  # before taking a run, so that the caller keeps waiting
            try:
                run = self._waiting.popleft()
            except IndexError:
                return
            self._left.add(run)
            taken = run
            _send(to, run)


def _send(to: BinaryIO, what: object) -> None:
    pickle.dump(what, to)
    to.flush()


# --- in the process ---------------------------------------------------------------------------


class _Teller(Observer):
    """Sends the progress and notes of a run to the caller."""

    def __init__(self, send: Callable[[Event], None]) -> None:
        self._send = send

    def progress(self, what: str, done: int, total: int) -> None:
        """Send the progress."""
        self._send(("progress", (what, done, total)))

    def note(self, text: str) -> None:
        """Send the note."""
        self._send(("note", (text,)))


def main() -> None:
    """Train one run after another, until the caller has no more or ends."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keep the output of libraries out of the answers
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(requests, inbox), daemon=True).start()
    dataset, settings, threads = inbox.get()
    observer = _Teller(lambda event: _send(answers, event))
    with share_of_cores(threads):
        while True:
            _send(answers, None)
            run = inbox.get()
            try:
                train(
                    dataset, test_domains=run.domain, out=run.folder, observer=observer, **settings
                )
            except Exception:
                return  # the caller repeats this run and raises the error


def _receive(requests: BinaryIO, inbox: queue.SimpleQueue[Any]) -> None:
    """Receive what the caller sends, and exit as soon as the caller ends."""
    try:
        while True:
            inbox.put(pickle.load(requests))  # trusted: from the parent process
    except (EOFError, OSError):
        os._exit(1)
