"""How much faster two local processes finish a sweep of small networks than one.

    python benchmarks/two_processes.py [--rounds 3] > two_processes.json

One process and two take turns at the same 12 runs, from start to last record, processes and data
included; the figure is the median of the rounds' ratios, since a machine's pace changes between
rounds.  With `--threads 1` every process has one
thread; otherwise they share the cores, as `shiftproof sweep --workers N` has it.  The machine
must be idle.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

from shiftproof.core.cores import cores
from shiftproof.data.load import DataRequest
from shiftproof.sweeps.executors.local import LocalExecutor
from shiftproof.sweeps.jobs import SweepData, Variant
from shiftproof.sweeps.presets import PRESETS
from shiftproof.sweeps.sweep import SweepPlan, make_plan, run_sweep

ALGORITHMS = ("erm", "vrex", "fishr", "idm")


def main() -> None:
    """Run the measurements, and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, help="of each process")
    parser.add_argument("--steps", type=int, help="of a run, in place of the preset's")
    arguments = parser.parse_args()
    preset = PRESETS["lite"]
    data = SweepData("colored-mnist", preset.request(DataRequest("colored-mnist")))
    plan = make_plan(
        [data],
        [Variant.plain(name) for name in ALGORITHMS],
        preset,
        ["oracle"],
        n_hparams=1,
        trials=1,
        steps=arguments.steps,
        device="cpu",
    )
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(arguments.rounds):
        for workers, taken in seconds.items():
            taken.append(finish(plan, workers, arguments.threads))
            print(f"{workers} processes: {taken[-1]:.1f} s", file=sys.stderr)
    ratios = [one / two for one, two in zip(seconds[1], seconds[2], strict=True)]
    figures = {
        "command": " ".join(["python benchmarks/two_processes.py", *sys.argv[1:]]),
        "runs": len(plan.jobs),
        "steps": arguments.steps or preset.steps,
        "one_process_seconds": seconds[1],
        "two_processes_seconds": seconds[2],
        "speed_by_round": ratios,
        "speed": statistics.median(ratios),
        "threads": arguments.threads or "cores / processes",
        "cores": cores(),
        "machine": platform.machine(),
        "torch": torch.__version__,
    }
    print(json.dumps(figures, indent=2))


def finish(plan: SweepPlan, workers: int, threads: int | None) -> float:
    """Return the seconds to finish all runs, from an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        result = run_sweep(plan, Path(folder) / "sweep", executor=LocalExecutor(workers, threads))
        taken = time.perf_counter() - started
    if result.standing.counts["finished"] != len(plan.jobs):
        raise RuntimeError(f"not all runs finished: {result.failures}")
    return taken


if __name__ == "__main__":
    main()
