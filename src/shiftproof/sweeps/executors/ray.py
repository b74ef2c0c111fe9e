"""Jobs on a Ray cluster: any number of machines, none of which shares a disk with the driver.

Ray's scheduler places the runs.  Each trains in a temporary folder of its machine, which travels as
its files: to the worker what the driver has of the run, and back whatever is new, records at once.
The driver alone writes the sweep's folder, as if the run had been made beside it.

A run whose worker or machine dies goes on elsewhere from the newest files that have arrived.  Every
attempt has a number, and only an attempt under way is listened to: one that was given up, on a
machine that was cut off and comes back, writes nothing.

Data in memory is loaded by the driver and handed out by Ray's object store, which all runs of a
machine read in place.  Images that are read from files are looked for on the machine of the run.
Shiftproof must be installed on every machine.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for_futures
from dataclasses import dataclass
from typing import Any

import ray
from ray import ObjectRef
from ray.exceptions import (
    NodeDiedError,
    ObjectLostError,
    RayError,
    RayTaskError,
    TaskCancelledError,
)
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import shiftproof
from shiftproof.core.errors import RunConflict
from shiftproof.sweeps.executors.base import Crew, Event, Executor, Listener, work_off
from shiftproof.sweeps.executors.mailbox import Mailbox
from shiftproof.sweeps.executors.parcels import Files, pack, unpack
from shiftproof.sweeps.executors.ray_cluster import Share
from shiftproof.sweeps.executors.ray_data import Library, findable
from shiftproof.sweeps.executors.ray_worker import Task, run_there
from shiftproof.sweeps.executors.work import TELL_SECONDS, failure
from shiftproof.sweeps.jobs import Job
from shiftproof.sweeps.store import SweepFolder
from shiftproof.training.run_folder import RunFolder


class RayExecutor(Executor):
    """The cluster that Ray is connected to: all of it, or as many runs at once as asked for."""

    def __init__(self, asked: int | None = None, checkpoint_seconds: float = 30.0) -> None:
        self._asked = asked
        self._checkpoint_seconds = checkpoint_seconds

    def workers(self, jobs: Sequence[Job], memory: int) -> int:
        """Return how many runs the cluster takes at once, as it is now."""
        return self._asked or max(1, Share.of(jobs, memory).times())

    def run(
        self, jobs: Sequence[Job], folder: SweepFolder, listener: Listener, memory: int
    ) -> None:
        """Run jobs as Ray finds place for them."""
        share = Share.of(jobs, memory)
        work_off(_Fleet(folder, share, self._asked, self._checkpoint_seconds), jobs, listener)


class Attempts:
    """The attempts under way; what any other one sends is not heard."""

    def __init__(self, folder: SweepFolder) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)
        self._jobs: dict[int, Job] = {}

    def begin(self, job: Job) -> int:
        """Return the number of a new attempt."""
        number = next(self._numbers)
        self._jobs[number] = job
        return number

    def receive(self, number: int, files: Files) -> Job | None:
        """Write what an attempt has sent; return its job, or None if nobody waits for it."""
        job = self._jobs.get(number)
        if job is not None:
            unpack(files, self._folder.run(job))
        return job

    def end(self, number: int) -> None:
        """Hear no more of an attempt."""
        del self._jobs[number]


@dataclass
class _Flight:
    """An attempt on its way: waiting for its data, queued, or at work (``heard`` of)."""

    job: Job
    data: Future[ObjectRef[Any] | None]
    task: ObjectRef[Any] | None = None
    heard: bool = False


class _Fleet(Crew):
    """The attempts that Ray has been given."""

    def __init__(
        self, folder: SweepFolder, share: Share, asked: int | None, checkpoint_seconds: float
    ) -> None:
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self._mailbox: Any = (
            ray.remote(Mailbox)
            .options(num_cpus=0, scheduling_strategy=here, max_restarts=-1, max_task_retries=-1)
            .remote()
        )
        # Ray would start a lost run anew; we know where it stood.
        self._remote = ray.remote(run_there).options(
            num_cpus=share.cpus, num_gpus=share.gpus, memory=share.memory or None, max_retries=0
        )
        self._folder = folder
        self._share = share
        self._asked = asked
        self._checkpoint_seconds = checkpoint_seconds
        self._attempts = Attempts(folder)
        self._flights: dict[int, _Flight] = {}
        self._library = Library()
        self._stopping = False
        self._most = self._room()

    def busy(self) -> bool:
        return bool(self._flights)

    def has_room(self) -> bool:
        return len(self._flights) < self._most

    def give(self, job: Job) -> None:
        self._flights[self._attempts.begin(job)] = _Flight(job, self._library.order(job))

    def listen(self) -> list[Event]:
        events = self._launch()
        self._most = self._room()
        self._wait()
        return [*events, *self._collect(), *self._land()]

    def stop(self) -> None:
        """Ask those at work to stop, by the mailbox's next answer; the others never begin."""
        if self._stopping:
            return
        self._stopping = True
        for number, flight in list(self._flights.items()):
            if flight.task is None:
                self._end(number)
            elif not flight.heard:
                ray.cancel(flight.task)

    def dismiss(self) -> None:
        self._library.close()
        for flight in self._flights.values():
            if flight.task is not None:
                ray.cancel(flight.task, force=True)
        ray.kill(self._mailbox)

    def _room(self) -> int:
        # Twice what runs at once: no machine waits for us, and a cluster that can grow sees why.
        return self._asked or max(1, 2 * self._share.times())

    def _launch(self) -> list[Event]:
        """Submit the attempts whose data is there."""
        failed = []
        for number, flight in list(self._flights.items()):
            if flight.task is not None or not flight.data.done():
                continue
            job = flight.job
            try:
                data = flight.data.result()
                run = self._folder.prepare(job)
                with RunFolder(run).claim(job.config):  # nobody is writing it
                    files = pack(run)
            except RunConflict as error:
                time.sleep(TELL_SECONDS)  # as in a process of ours
                failed.append(Event("failed", job, status="died", reason=str(error)))
            except Exception as error:
                failed.append(failure(job, error))
            else:
                wanted = findable(job) if data is None else job
                task = Task(wanted, number, files, self._checkpoint_seconds, shiftproof.__version__)
                flight.task = self._remote.remote(task, data, self._mailbox)
                continue
            self._end(number)
        return failed

    def _wait(self) -> None:
        """Wait until a run ends, but not long."""
        tasks = self._tasks()
        if tasks:
            ray.wait(list(tasks), timeout=TELL_SECONDS)
        else:
            wait_for_futures([f.data for f in self._flights.values()], timeout=TELL_SECONDS)

    def _collect(self) -> Iterator[Event]:
        """Write what has come from runs at work."""
        parcels: Any = ray.get(self._mailbox.collect.remote(self._stopping))
        for number, (step, files) in parcels.items():
            job = self._attempts.receive(number, files)
            if job is not None:
                flight = self._flights[number]
                yield Event("progress" if flight.heard else "started", job, step)
                flight.heard = True

    def _land(self) -> Iterator[Event]:
        """Take in the runs that have ended."""
        tasks = self._tasks()
        if not tasks:
            return
        for task in ray.wait(list(tasks), num_returns=len(tasks), timeout=0)[0]:
            number = tasks[task]
            event, files = _result(task, self._flights[number].job)
            self._attempts.receive(number, files)
            self._end(number)
            yield event

    def _tasks(self) -> dict[ObjectRef[Any], int]:
        return {f.task: number for number, f in self._flights.items() if f.task is not None}

    def _end(self, number: int) -> None:
        self._attempts.end(number)
        del self._flights[number]


def _result(task: ObjectRef[Any], job: Job) -> tuple[Event, Files]:
    """Return how a run ended and its files, or what Ray says about its end."""
    try:
        result: tuple[Event, Files] = ray.get(task)
        return result
    except TaskCancelledError:
        return Event("ended", job, status="stopped"), {}
    except RayTaskError as error:
        return failure(job, error.cause if isinstance(error.cause, Exception) else error), {}
    except (NodeDiedError, ObjectLostError) as error:
        status, reason = "lost", str(error)
    except RayError as error:
        status, reason = "died", str(error)
    return Event("failed", job, status=status, reason=" ".join(reason.split())), {}
