"""Comparable measurements of the time and memory of a piece of work."""

from __future__ import annotations

import gc
import os
import platform
import statistics
import time
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Work = Callable[[], object]


def seconds_in_turn(
    sides: Mapping[str, Work], rounds: int = 9, warmup: int = 1
) -> dict[str, list[float]]:
    """Return the seconds of each side in each round; the sides take turns, in alternating order."""
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(warmup + rounds):
        for name in list(sides)[:: 1 if turn % 2 else -1]:
            start = time.perf_counter()
            sides[name]()
            if turn >= warmup:
                taken[name].append(time.perf_counter() - start)
    return taken


def ratio_of(taken: Mapping[str, list[float]], upper: str, lower: str) -> float:
    """Return the median over rounds of upper / lower: a machine's speed varies between rounds.

    >>> ratio_of({"a": [2.0, 30.0, 4.0], "b": [1.0, 10.0, 2.0]}, "a", "b")
    2.0
    """
    return statistics.median(a / b for a, b in zip(taken[upper], taken[lower], strict=True))


def medians(taken: Mapping[str, list[float]]) -> dict[str, float]:
    """Return the median seconds of each side, to four digits."""
    return {name: float(f"{statistics.median(values):.4g}") for name, values in taken.items()}


def allocated_peak(work: Work) -> int:
    """Return the peak increase in bytes of tensors (on the CPU) and arrays while `work` runs.

    Resident memory depends on fragmentation, and varies by the size of an activation from run to
    run.  The sum of all allocations does not.  Torch's profiler reports every allocation of a
    tensor, including the scratch space of operators, and `tracemalloc` reports those of NumPy and
    Python.  The peaks of both are added, as if they occurred at the same moment.  The work runs
    twice and the second run counts: it may free memory that the first allocated, which the profiler
    must have seen.
    """
    from torch.profiler import ProfilerActivity, profile

    def profiled() -> Any:
        return profile(activities=[ProfilerActivity.CPU], profile_memory=True)

    with profiled():
        work()
    gc.collect()
    tracemalloc.start()
    try:
        with profiled() as profiler:
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            work()
            _, top = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    results = profiler.profiler.kineto_results
    changes = [event for event in results.events() if event.name() == "[memory]"]
    held = peak = 0
    for change in sorted(changes, key=lambda event: event.start_ns()):
        held += change.nbytes()
        peak = max(peak, held)
    return int(peak) + top - before


def quieten_profiler() -> None:
    """Keep torch's profiler from printing; call this before torch is imported."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")


def machine() -> dict[str, Any]:
    """Return what the measurements depend on: processor, threads, versions."""
    import numpy as np
    import torch

    import shiftproof

    return {
        "processor": _processor(),
        "threads": torch.get_num_threads(),
        "shiftproof": shiftproof.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
