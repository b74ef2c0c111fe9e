"""Ways to get jobs done: ``local`` processes, or a ``ray`` cluster."""

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
    name: str = "local", workers: int | None = None, ray_address: str | None = None
) -> Iterator[Executor]:
    """Hold an executor of at most ``workers`` runs at once; a cluster is left at the end."""
    if name not in EXECUTORS:
        raise UnknownName("executor", name, EXECUTORS)
    if name == "local":
        if ray_address is not None:
            raise InvalidValue("--ray-address is for --executor ray")
        from shiftproof.sweeps.executors.local import LocalExecutor

        yield LocalExecutor(workers)
        return
    # Ray reads these when it is imported: no statistics to its makers, and no lines of its own
    # between ours when a worker dies, which we tell of.
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    try:
        import ray  # noqa: F401
    except ModuleNotFoundError:
        raise InvalidValue("--executor ray needs Ray: pip install 'shiftproof[ray]'") from None
    from shiftproof.sweeps.executors.ray import RayExecutor
    from shiftproof.sweeps.executors.ray_cluster import connected

    with connected(ray_address):
        yield RayExecutor(workers)
