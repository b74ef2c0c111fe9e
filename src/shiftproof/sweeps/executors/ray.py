"""Run jobs on a Ray cluster, whose machines need not share a disk with the driver.

Ray's scheduler places the runs.  Each run trains in a temporary folder of its machine.  The driver
sends the run's existing files, and the worker sends back new ones; records are sent at once.  Only
the driver writes the sweep's folder.

A run whose worker or machine dies is resumed elsewhere from the newest files received.  Every
attempt has a number, and files are accepted only from active attempts: a machine that disconnects
and returns cannot overwrite anything.

The driver loads data that fits in memory and shares it through Ray's object store, which all runs
on a machine read in place.  Lazily read images must be on the machine of the run.  Shiftproof must
be installed on every machine.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import signal
import socket
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait as wait_for_futures
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import ray
import torch
from ray import ObjectRef, exceptions
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from torch import Tensor

import shiftproof
from shiftproof.core.cores import cores
from shiftproof.core.errors import InvalidValue, RunConflict
from shiftproof.data import DATASETS, DomainDataset
from shiftproof.sweeps.executors import run_files
from shiftproof.sweeps.executors.base import (
    POLL_SECONDS,
    Event,
    Executor,
    Listener,
    StepReporter,
    WorkerPool,
    failure,
    outcome,
    run_jobs,
    without_signals,
)
from shiftproof.sweeps.executors.run_files import Files, pack, scratch, unpack
from shiftproof.sweeps.jobs import DatasetCache, Job
from shiftproof.sweeps.store import SweepFolder
from shiftproof.training.loop import RunResult, train
from shiftproof.training.records import Record
from shiftproof.training.run_folder import RunFolder

# --- the cluster -------------------------------------------------------------------------------

CONNECT_SECONDS = 10.0


@contextlib.contextmanager
def connected(address: str | None = None) -> Iterator[None]:
    """Connect to a cluster, or start one on this machine; disconnect at the end.

    ``address`` is HOST:PORT, or ``auto`` for the cluster of this machine.  The default is the
    environment variable RAY_ADDRESS.
    """
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    _check(address)
    with contextlib.ExitStack() as stack:
        options: dict[str, Any] = {}
        if address == "local":
            # Not the usual temporary folder, whose path may be too long for sockets.
            folder = stack.enter_context(scratch(Path("/tmp")))
            options = {"num_cpus": cores(), "include_dashboard": False, "_temp_dir": str(folder)}
        if threading.current_thread() is threading.main_thread():
            # Ray replaces this handler.
            stack.callback(signal.signal, signal.SIGTERM, signal.getsignal(signal.SIGTERM))
        try:
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **options)
        except Exception as error:  # Ray raises a bare Exception if the machine is too busy
            reason = str(error).partition("\n")[0]
            what = "start Ray here" if options else f"connect to the Ray cluster at {address}"
            raise InvalidValue(f"cannot {what}: {reason}") from error
        stack.callback(ray.shutdown)
        yield


def _check(address: str) -> None:
    """Raise an error if an address does not answer, which takes Ray itself minutes."""
    if address in ("local", "auto"):
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        raise InvalidValue(f"`ray_address` must be HOST:PORT or auto, not {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise InvalidValue(
            f"no Ray cluster answers at {address} ({error}); start one with `ray start`"
        ) from error


class Share(NamedTuple):
    """The resources of a machine that one run needs."""

    cpus: int
    gpus: int
    memory: int

    @classmethod
    def of(cls, jobs: Sequence[Job], memory: int) -> Share:
        """Return what each of the jobs needs, at most the memory of the largest machine."""
        gpus = int(any(job.config.device.startswith("cuda") for job in jobs))
        largest = max((int(has.get("memory", 0)) for has in _machines()), default=0)
        return cls(THREADS, gpus, min(memory, largest))

    def times(self) -> int:
        """Return how many runs fit on the cluster."""
        return sum(self.within(machine) for machine in _machines())

    def within(self, machine: dict[str, float]) -> int:
        """Return how many runs fit on a machine."""
        needs = {"CPU": self.cpus, "GPU": self.gpus, "memory": self.memory}
        return min(int(machine.get(name, 0) // need) for name, need in needs.items() if need)


def _machines() -> list[dict[str, float]]:
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return [node["Resources"] for node in nodes if node["Alive"]]


# --- on a machine of the cluster --------------------------------------------------------------

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
        self._changed = run_files.ChangedFiles(run)
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


# --- the driver -------------------------------------------------------------------------------


class SharedDatasets:
    """The data of a sweep, loaded by the driver in a separate thread."""

    def __init__(self) -> None:
        self._loader = ThreadPoolExecutor(1)
        self._loading: dict[tuple[str, str], Future[ObjectRef[Any] | None]] = {}

    def get(self, job: Job) -> Future[ObjectRef[Any] | None]:
        """Return a future of a job's data; its result is None if the worker must read files."""
        key = (job.data.name, job.config.fingerprint)
        if key not in self._loading:
            self._loading[key] = self._loader.submit(self._load, job)
        return self._loading[key]

    def close(self) -> None:
        """Stop loading."""
        self._loader.shutdown(wait=False, cancel_futures=True)

    @staticmethod
    def _load(job: Job) -> ObjectRef[Any] | None:
        dataset = job.data.load(job.trial_seed)
        if any(domain.is_lazy for domain in (*dataset.domains, *dataset.extras)):
            return None
        return share_dataset(dataset)


def share_dataset(dataset: DomainDataset) -> ObjectRef[Any]:
    """Put a dataset into Ray's object store, with tensors as arrays that are read in place."""
    ray.util.register_serializer(Tensor, serializer=_to_bytes, deserializer=_from_bytes)
    try:
        return ray.put(dataset)
    finally:
        ray.util.deregister_serializer(Tensor)


def _to_bytes(tensor: Tensor) -> tuple[np.ndarray, torch.dtype, torch.Size]:
    flat = tensor.contiguous().flatten().view(torch.uint8)
    return flat.numpy(), tensor.dtype, tensor.shape


def _from_bytes(parts: tuple[np.ndarray, torch.dtype, torch.Size]) -> Tensor:
    flat, dtype, shape = parts
    with warnings.catch_warnings():
        # Torch warns about read-only memory.  A dataset is never modified: every run copies its
        # samples, and checks its fingerprint first.
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(flat).view(dtype).reshape(shape)


def with_absolute_path(job: Job) -> Job:
    """Return the job with an absolute data path, independent of the working directory."""
    request = job.data.request
    if request.data in DATASETS:
        return job
    path = str(Path(request.data).expanduser().absolute())
    return replace(job, data=replace(job.data, request=replace(request, data=path)))


class RayExecutor(Executor):
    """Runs ``asked`` jobs at once on the connected Ray cluster, by default as many as fit."""

    def __init__(self, asked: int | None = None, checkpoint_seconds: float = 30.0) -> None:
        self._asked = asked
        self._checkpoint_seconds = checkpoint_seconds

    def workers(self, jobs: Sequence[Job], memory: int) -> int:
        """Return how many runs fit on the cluster at its current size."""
        return self._asked or max(1, Share.of(jobs, memory).times())

    def run(
        self, jobs: Sequence[Job], folder: SweepFolder, listener: Listener, memory: int
    ) -> None:
        """Run jobs as Ray schedules them."""
        share = Share.of(jobs, memory)
        run_jobs(_RayTasks(folder, share, self._asked, self._checkpoint_seconds), jobs, listener)


@dataclass
class Attempt:
    """An active attempt: waiting for its data, queued, or ``started``."""

    job: Job
    data: Future[ObjectRef[Any] | None]
    task: ObjectRef[Any] | None = None
    started: bool = False


def receive(
    running: Mapping[int, Attempt], number: int, files: Files, folder: SweepFolder
) -> Attempt | None:
    """Write the files of an attempt; return it, or None if it is not active: files are ignored."""
    attempt = running.get(number)
    if attempt is not None:
        unpack(files, folder.run(attempt.job))
    return attempt


class _RayTasks(WorkerPool):
    """The attempts that Ray runs."""

    def __init__(
        self, folder: SweepFolder, share: Share, asked: int | None, checkpoint_seconds: float
    ) -> None:
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        options: dict[str, Any] = {"max_restarts": -1, "max_task_retries": -1, "num_cpus": 0}
        mailbox = ray.remote(run_files.Mailbox).options(scheduling_strategy=here, **options)
        self._mailbox: Any = mailbox.remote()
        # No retries by Ray, which would restart a lost run from the beginning; we resume it.
        self._remote = ray.remote(run_there).options(
            num_cpus=share.cpus, num_gpus=share.gpus, memory=share.memory or None, max_retries=0
        )
        self._folder = folder
        self._share = share
        self._asked = asked
        self._checkpoint_seconds = checkpoint_seconds
        self._numbers = itertools.count(1)
        self._running: dict[int, Attempt] = {}
        self._datasets = SharedDatasets()
        self._stopping = False
        self._most = self._room()

    def busy(self) -> bool:
        return bool(self._running)

    def has_room(self) -> bool:
        return len(self._running) < self._most

    def submit(self, job: Job) -> None:
        self._running[next(self._numbers)] = Attempt(job, self._datasets.get(job))

    def poll(self) -> list[Event]:
        events = self._launch()
        self._most = self._room()
        self._wait()
        return [*events, *self._collect(), *self._finished()]

    def stop(self) -> None:
        """Stop started attempts through the mailbox's next answer; cancel the others."""
        if self._stopping:
            return
        self._stopping = True
        for number, attempt in list(self._running.items()):
            if attempt.task is None:
                del self._running[number]
            elif not attempt.started:
                ray.cancel(attempt.task)

    def close(self) -> None:
        self._datasets.close()
        for attempt in self._running.values():
            if attempt.task is not None:
                ray.cancel(attempt.task, force=True)
        ray.kill(self._mailbox)

    def _room(self) -> int:
        # Twice the number of concurrent runs: no machine idles, and an autoscaler sees the demand.
        return self._asked or max(1, 2 * self._share.times())

    def _launch(self) -> list[Event]:
        """Submit the attempts whose data is ready."""
        failed = []
        for number, attempt in list(self._running.items()):
            if attempt.task is not None or not attempt.data.done():
                continue
            job = attempt.job
            try:
                data = attempt.data.result()
                run = self._folder.prepare(job)
                with RunFolder(run).claim(job.config):  # no other process is writing to it
                    files = pack(run)
            except RunConflict as error:
                time.sleep(POLL_SECONDS)  # as in `work.outcome`
                failed.append(Event("failed", job, status="died", reason=str(error)))
            except Exception as error:
                failed.append(failure(job, error))
            else:
                wanted = with_absolute_path(job) if data is None else job
                task = Task(wanted, number, files, self._checkpoint_seconds, shiftproof.__version__)
                attempt.task = self._remote.remote(task, data, self._mailbox)
                continue
            del self._running[number]
        return failed

    def _wait(self) -> None:
        """Wait until a run ends, at most `POLL_SECONDS`."""
        tasks = self._tasks()
        if tasks:
            ray.wait(list(tasks), timeout=POLL_SECONDS)
        else:
            wait_for_futures([f.data for f in self._running.values()], timeout=POLL_SECONDS)

    def _collect(self) -> Iterator[Event]:
        """Write the files that running attempts have sent."""
        delivered: Any = ray.get(self._mailbox.collect.remote(self._stopping))
        for number, (step, files) in delivered.items():
            attempt = receive(self._running, number, files, self._folder)
            if attempt is not None:
                yield Event("progress" if attempt.started else "started", attempt.job, step)
                attempt.started = True

    def _finished(self) -> Iterator[Event]:
        """Yield the final event of each run that has ended."""
        tasks = self._tasks()
        if not tasks:
            return
        for task in ray.wait(list(tasks), num_returns=len(tasks), timeout=0)[0]:
            number = tasks[task]
            event, files = _result(task, self._running[number].job)
            receive(self._running, number, files, self._folder)
            del self._running[number]
            yield event

    def _tasks(self) -> dict[ObjectRef[Any], int]:
        return {f.task: number for number, f in self._running.items() if f.task is not None}


def _result(task: ObjectRef[Any], job: Job) -> tuple[Event, Files]:
    """Return the final event and files of a run, or an event for the error that Ray reports."""
    try:
        result: tuple[Event, Files] = ray.get(task)
        return result
    except exceptions.TaskCancelledError:
        return Event("ended", job, status="stopped"), {}
    except exceptions.RayTaskError as error:
        return failure(job, error.cause if isinstance(error.cause, Exception) else error), {}
    except (exceptions.NodeDiedError, exceptions.ObjectLostError) as error:
        status, reason = "lost", str(error)
    except exceptions.RayError as error:
        status, reason = "died", str(error)
    return Event("failed", job, status=status, reason=" ".join(reason.split())), {}
