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
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

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


# The folder of the run that holds out each domain, if one is given.
Folders = Mapping[str, Path | None]


def train_runs(
    folders: Folders,
    dataset: DomainDataset,
    settings: Mapping[str, Any],
    observer: Observer,
    processes: int,
) -> list[TrainedRun]:
    """Train all runs on a dataset with the given settings of `train`; return them in order.

    If the user interrupts, the interrupted run is returned last; the same call resumes.
    """
    started = time.monotonic()
    trained: dict[str, TrainedRun] = {}
    for domain, folder in folders.items():
        late = time.monotonic() - started >= PATIENCE
        if processes > 1 and late and 1 <= len(trained) < len(folders) - 1:
            rest = {name: path for name, path in folders.items() if name not in trained}
            trained |= _in_processes(rest, dataset, settings, observer, processes, len(folders))
            processes = 1
        if domain not in trained:
            trained[domain] = train(
                dataset, test_domains=domain, out=folder, observer=observer, **settings
            )
            if trained[domain].status == "stopped":
                break
            observer.progress(DONE, len(trained), len(folders))
    return [trained[domain] for domain in folders if domain in trained]


def processes_for(dataset: DomainDataset, runs: int) -> int:
    """Return the number of processes for this many runs, limited by cores and memory."""
    size = sum(domain.nbytes for domain in dataset.domains if not domain.is_lazy)
    return min(choose_workers(None, BYTES + COPIES * size), runs)


def _in_processes(
    folders: Folders,
    dataset: DomainDataset,
    settings: Mapping[str, Any],
    observer: Observer,
    processes: int,
    total: int,
) -> dict[str, TrainedRun]:
    """Return the runs that finished in processes; an interrupt ends all of them."""
    from joblib import Parallel, delayed, parallel_config
    from joblib.externals.loky import get_reusable_executor
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    trained: dict[str, TrainedRun] = {}
    work: Callable[..., Any] = delayed(_train)
    try:
        with parallel_config("loky", inner_max_num_threads=threads_of_each(processes)):
            parallel = Parallel(
                min(processes, len(folders)), return_as="generator_unordered", pre_dispatch="all"
            )
            parts = (work(*run, dataset, settings, os.getpid()) for run in folders.items())
            for domain, result, notes in parallel(parts):
                if result is None:
                    continue
                trained[domain] = result
                for note in notes:
                    observer.note(note)
                observer.begin(result.config, 0)
                observer.record(result.metrics)
                observer.progress(DONE, total - len(folders) + len(trained), total)
    except TerminatedWorkerError:  # the system ended a process, for lack of memory for instance
        pass
    finally:
        get_reusable_executor().shutdown(wait=True, kill_workers=True)
    return trained


# --- in a process -----------------------------------------------------------------------------


def _train(
    domain: str,
    folder: Path | None,
    dataset: DomainDataset,
    settings: Mapping[str, Any],
    caller: int,
) -> tuple[str, TrainedRun | None, list[str]]:
    """Train a run; return its domain, the run with its notes, or no run if it failed."""
    _end_with(caller)
    notes = _Notes()
    try:
        run = train(dataset, test_domains=domain, out=folder, observer=notes, **settings)
    except Exception:
        return domain, None, []  # the caller repeats this run and raises the error
    return domain, run if run.status != "stopped" else None, notes.texts


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
