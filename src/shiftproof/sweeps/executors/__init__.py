"""Execute runs in ``local`` processes or on a ``ray`` cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from shiftproof.core.errors import InvalidValue, UnknownName

if TYPE_CHECKING:
    from shiftproof.sweeps.executors.base import Executor

EXECUTORS = ("local", "ray")


@contextmanager
def open_executor(
    name: str = "local",
    workers: int | None = None,
    ray_address: str | None = None,
    stall_seconds: float | None = None,
) -> Iterator[Executor]:
    """Open an executor of at most ``workers`` concurrent runs, and disconnect it at the end."""
    if name not in EXECUTORS:
        raise UnknownName("executor", name, EXECUTORS)
    if stall_seconds is not None and (name != "local" or not stall_seconds > 0):
        raise InvalidValue('`stall_seconds` must be positive, and is for `executor="local"`')
    if name == "local":
        if ray_address is not None:
            raise InvalidValue('`ray_address` is for `executor="ray"`')
        from shiftproof.sweeps.executors.local import LocalExecutor

        yield LocalExecutor(workers, stall_seconds=stall_seconds)
        return
    # Ray reads these on import: they disable usage statistics, and Ray's log lines about dead
    # workers, which we report ourselves.
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    try:
        import ray  # noqa: F401
    except ModuleNotFoundError:
        raise InvalidValue("`executor=\"ray\"` needs Ray: pip install 'shiftproof[ray]'") from None
    from shiftproof.sweeps.executors.ray import RayExecutor, connected

    with connected(ray_address):
        yield RayExecutor(workers)
