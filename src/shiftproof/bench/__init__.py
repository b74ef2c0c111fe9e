"""Speed and memory, as ratios of two sides measured in turn within one process."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from shiftproof.bench.growth import growth, overhead, startup
from shiftproof.bench.many import many
from shiftproof.bench.matching import estimate, penalty, step, table1
from shiftproof.bench.measure import Figure
from shiftproof.bench.protocol import run

BENCHES: dict[str, Callable[[], Iterator[Figure]]] = {
    "step": step,
    "penalty": penalty,
    "estimate": estimate,
    "table1": table1,
    "run": run,
    "growth": growth,
    "overhead": overhead,
    "startup": startup,
    "many": many,
}


def machine() -> dict[str, Any]:
    """Return what the figures depend on: processor, threads, versions."""
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
