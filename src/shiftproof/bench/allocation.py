"""What work allocates at most, counted allocation by allocation.

Resident pages say what a process holds, and that depends on which holes the allocator finds: they
jump by the size of an activation from run to run.  The sum of what is asked for does not.
"""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

from torch.profiler import ProfilerActivity, profile

from shiftproof.bench.measure import Work


def allocated_peak(work: Work) -> int:
    """Return by how many bytes tensors (on the CPU) and arrays grew at most while ``work`` ran.

    Torch's profiler tells every allocation of a tensor, its operators' scratch space included, and
    ``tracemalloc`` those of NumPy and Python.  The peaks of both are added, as if they had come at
    the same moment.  The work is done twice, and counted the second time: it may give back what it
    allocated the time before, which the profiler must have seen.
    """
    with _profile():
        work()
    gc.collect()
    tracemalloc.start()
    try:
        with _profile() as profiler:
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


def _profile() -> Any:
    return profile(activities=[ProfilerActivity.CPU], profile_memory=True)
