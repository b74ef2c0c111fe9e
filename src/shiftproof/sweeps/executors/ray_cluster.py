"""Connect to a Ray cluster, and query the resources of its machines."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import ray

from shiftproof.core.cores import cores
from shiftproof.core.errors import InvalidValue
from shiftproof.sweeps.executors.ray_worker import THREADS
from shiftproof.sweeps.executors.run_files import scratch
from shiftproof.sweeps.jobs import Job

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
        own: dict[str, Any] = {}
        if address == "local":
            # Not the usual temporary folder, whose path may be too long for sockets.
            place = stack.enter_context(scratch(Path("/tmp")))
            own = {"num_cpus": cores(), "include_dashboard": False, "_temp_dir": str(place)}
        stack.enter_context(_own_signals())
        try:
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **own)
        except Exception as error:  # Ray raises a bare Exception if the machine is too busy
            reason = str(error).partition("\n")[0]
            what = "start Ray here" if own else f"connect to the Ray cluster at {address}"
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


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Restore the handler of SIGTERM, which Ray replaces."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
