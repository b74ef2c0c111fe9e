"""Train the runs that hold out each domain in turn, in several processes if they take long.

Only for algorithms that are fitted at once: they have no checkpoint to lose with a process.  Every
run is written to its folder, so a run whose process failed is repeated by the caller, and its error
is raised there.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from shiftproof.api.train import train
from shiftproof.api.trained_run import TrainedRun
from shiftproof.core.cores import choose_workers, threads_of_each
from shiftproof.data import DomainDataset
from shiftproof.training.observers import Observer

# Seconds of work before other processes are started, since starting one takes seconds.
PATIENCE = 1.0
# Memory of a process besides the data, and its number of copies of the data (raw, encoded, …).
BYTES, COPIES = 1_000_000_000, 5
# Seconds between two looks for the caller, and the name of the progress over all runs.
WATCH, DONE = 0.5, "domains held out"


class HeldOutRun(NamedTuple):
    """A run to train: its held-out domain, and its folder, if one is given."""

    domain: str
    folder: Path | None


def train_runs(
    runs: Sequence[HeldOutRun],
    dataset: DomainDataset,
    settings: Mapping[str, Any],
    observer: Observer,
    processes: int,
) -> list[TrainedRun]:
    """Train all runs on a dataset with the given settings of `train`; return them in order.

    If the user interrupts, the interrupted run is returned last; the same call resumes.
    """
    started = time.monotonic()
    trained: dict[HeldOutRun, TrainedRun] = {}
    for run in runs:
        late = time.monotonic() - started >= PATIENCE
        if processes > 1 and late and 1 <= len(trained) < len(runs) - 1:
            rest = [run for run in runs if run not in trained]
            trained |= _in_processes(rest, dataset, settings, observer, processes, len(runs))
            processes = 1
        if run not in trained:
            trained[run] = train(
                dataset, test_domains=run.domain, out=run.folder, observer=observer, **settings
            )
            if trained[run].status == "stopped":
                break
            observer.progress(DONE, len(trained), len(runs))
    return [trained[run] for run in runs if run in trained]


def processes_for(dataset: DomainDataset, runs: int) -> int:
    """Return the number of processes for this many runs, limited by cores and memory."""
    size = sum(domain.nbytes for domain in dataset.domains if not domain.is_lazy)
    return min(choose_workers(None, BYTES + COPIES * size), runs)


def _in_processes(
    runs: Sequence[HeldOutRun],
    dataset: DomainDataset,
    settings: Mapping[str, Any],
    observer: Observer,
    processes: int,
    total: int,
) -> dict[HeldOutRun, TrainedRun]:
    """Return the runs that finished in processes; an interrupt ends all of them."""
    from joblib import Parallel, delayed, parallel_config
    from joblib.externals.loky import get_reusable_executor
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    trained: dict[HeldOutRun, TrainedRun] = {}
    work: Callable[..., Any] = delayed(_train)
    threads = threads_of_each(processes)
    try:
        with parallel_config("loky", inner_max_num_threads=threads):
            parallel = Parallel(
                min(processes, len(runs)), return_as="generator_unordered", pre_dispatch="all"
            )
            parts = (work(run, dataset, settings, os.getpid()) for run in runs)
            for run, result, notes in parallel(parts):
                if result is None:
                    continue
                trained[run] = result
                for note in notes:
                    observer.note(note)
                observer.begin(result.config, 0)
                observer.record(result.metrics)
                observer.progress(DONE, total - len(runs) + len(trained), total)
    except TerminatedWorkerError:  # the system ended a process, for lack of memory for instance
        pass
    finally:
        get_reusable_executor().shutdown(wait=True, kill_workers=True)
    return trained


# --- in a process -----------------------------------------------------------------------------


def _train(
    run: HeldOutRun, dataset: DomainDataset, settings: Mapping[str, Any], caller: int
) -> tuple[HeldOutRun, TrainedRun | None, list[str]]:
    """Train a run; return it with its notes, without a result if it failed."""
    _end_with(caller)
    notes = _Notes()
    try:
        result = train(dataset, test_domains=run.domain, out=run.folder, observer=notes, **settings)
    except Exception:
        return run, None, []  # the caller repeats this run and raises the error
    return run, result if result.status != "stopped" else None, notes.texts


class _Notes(Observer):
    """Collects the notes of a run."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        """Keep the note."""
        self.texts.append(text)


@cache
def _end_with(caller: int) -> None:
    """End this process as soon as the caller is gone: loky leaves workers behind after kill −9.

    Ctrl-C in the terminal reaches all processes; only the caller handles it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == caller:
            time.sleep(WATCH)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
