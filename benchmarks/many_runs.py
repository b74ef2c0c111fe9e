"""Time and memory of `report` over a large sweep: 30,240 runs, ours or DomainBed's, or an archive.

The sizes are those of DomainBed's protocol: 5,001 steps with a record every 300, so 18 records a
run; 20 draws of hyper-parameters, 3 trials, and each of 4 domains held out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figure import Figure
from benchmarks.growth import LINEAR, exponent
from shiftproof.core.files import write_json
from shiftproof.sweeps.domainbed.names import ALGORITHM_NAMES
from shiftproof.training.records import record_line
from shiftproof.training.run_folder import Ended, RunFolder

DATASETS = ("VLCS", "PACS", "OfficeHome", "TerraIncognita", "SVIRO", "Spawrious")
DOMAINS, DRAWS, TRIALS = 4, 20, 3
STEPS, EVERY = 5001, 300
MOST_SECONDS, MOST_BYTES = 20.0, 10**9
ALGORITHMS = 21


def report_of_many() -> Iterator[Figure]:
    """Measure `shiftproof report` over 30,240 runs, and how its time grows."""
    kinds = {"sweep": write_sweep, "domainbed": write_domainbed}
    for kind, write in kinds.items():
        counts, taken, peaks = [], [], []
        for algorithms in (3, ALGORITHMS):
            with tempfile.TemporaryDirectory() as folder:
                counts.append(write(Path(folder), algorithms))
                os.sync()  # so that the disk is not writing while they are read
                seconds, peak = measure([sys.executable, "-m", "shiftproof", "report", folder])
            taken.append(seconds)
            peaks.append(peak)
        details = {"runs": counts, "seconds": taken, "bytes": peaks}
        what = f"of report over {counts[-1]:,} runs, {kind}"
        yield Figure(f"report-{kind}", f"seconds {what}", taken[-1], "≤", MOST_SECONDS, details)
        yield Figure(
            f"report-{kind}-memory",
            f"peak megabytes {what}, all its processes together",
            peaks[-1] / 10**6,
            "≤",
            MOST_BYTES / 10**6,
        )
        yield Figure(
            f"report-{kind}-growth",
            f"exponent of these seconds in the number of runs, {counts[0]:,} to {counts[-1]:,}",
            exponent(counts, taken),
            "≤",
            LINEAR,
        )


def measure(command: list[str]) -> tuple[float, int]:
    """Return the seconds of a command, and the peak memory of all its processes.

    Resident memory is sampled only ten times a second, since sampling takes time from the measured
    cores; shared pages count once per process.
    """
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(map(_resident, [process.pid, *_children(process.pid)])))
        time.sleep(0.1)
    taken = time.perf_counter() - start
    if process.returncode != 0:
        raise RuntimeError(f"{command} ended with code {process.returncode}")
    return taken, peak


def write_sweep(folder: Path, algorithms: int = ALGORITHMS) -> int:
    """Write the runs of a Shiftproof sweep; return their number."""
    values = np.random.default_rng(0)
    count = 0
    names = [f"domain{position}" for position in range(DOMAINS)]
    for count, (dataset, algorithm, test, draw, trial) in enumerate(_runs(algorithms), 1):
        run = folder / "runs" / f"{dataset}-{algorithm}-{count:016x}"
        run.mkdir(parents=True)
        place = {"dataset": dataset, "algorithm": algorithm.lower(), "test_domains": [names[test]]}
        seeds = {"hparams_seed": draw, "trial_seed": trial}
        write_json(run / "job.json", {**place, "domains": names, **seeds})
        write_json(run / "config.json", {**place, **_SETTINGS, "hparams": _hparams(values)})
        environment: dict[str, str | int] = {
            "shiftproof": "0.1.0",
            "torch": "2.15.0",
            "python": "3.11.7",
            "threads": 1,
        }
        parts = [f"{names[test]}/in", *(f"{name}/out" for name in names)]
        lines = []
        for step in _steps():
            accuracy, risk = values.random((2, len(parts))).tolist()
            record = {
                "step": step + 1,
                "loss": values.random(),
                "accuracy": dict(zip(parts, accuracy, strict=True)),
                "risk": dict(zip(parts, risk, strict=True)),
            }
            lines.append(record_line(record))
        (run / "records.jsonl").write_bytes(b"".join(lines))
        RunFolder(run).finish(Ended("finished", STEPS, 812.25, run.name, environment))
    return count


def write_domainbed(folder: Path, algorithms: int = ALGORITHMS) -> int:
    """Write the runs of a sweep in DomainBed's format; return their number."""
    values = np.random.default_rng(0)
    count = 0
    for count, (dataset, algorithm, test, draw, trial) in enumerate(_runs(algorithms), 1):
        run = folder / f"{count:032x}"
        run.mkdir(parents=True)
        args = {
            "algorithm": algorithm, "checkpoint_freq": None, "data_dir": "/data/domainbed",
            "dataset": dataset, "holdout_fraction": 0.2, "hparams": None, "hparams_seed": draw,
            "output_dir": f"sweep/{run.name}", "save_model_every_checkpoint": False,
            "seed": count, "skip_model_save": False, "steps": STEPS,
            "task": "domain_generalization", "test_envs": [test],
            "trial_seed": trial, "uda_holdout_fraction": 0,
        }  # fmt: skip
        hparams = _hparams(values)
        lines = []
        for step in _steps():
            parts = [f"env{env}_{part}_acc" for env in range(DOMAINS) for part in ("in", "out")]
            record = {
                **dict(zip(parts, values.random(len(parts)).tolist(), strict=True)),
                "args": args, "hparams": hparams, "epoch": step * 0.0269, "loss": values.random(),
                "mem_gb": 7.8215, "step": step, "step_time": values.random(),
            }  # fmt: skip
            lines.append(json.dumps(record, sort_keys=True) + "\n")
        (run / "results.jsonl").write_text("".join(lines), "utf-8")
        (run / "done").write_text("done")
    return count


_SETTINGS = {
    "fingerprint": "9f2fedffc9928a56", "backbone": "resnet50", "steps": STEPS, "eval_every": EVERY,
    "evaluate": ["train-out", "test-in", "test-out"], "holdout": 0.2, "data_seed": 0,
    "seed": 1304707101, "device": "cpu", "precision": "fp32",
}  # fmt: skip


def _runs(algorithms: int) -> Iterator[tuple[str, str, int, int, int]]:
    names = sorted(ALGORITHM_NAMES)[:algorithms]
    return product(DATASETS, names, range(DOMAINS), range(DRAWS), range(TRIALS))


def _steps() -> list[int]:
    return [*range(0, STEPS - 1, EVERY), STEPS - 1]


def _hparams(values: np.random.Generator) -> dict[str, Any]:
    return {
        "batch_size": int(values.integers(8, 64)), "class_balanced": False,
        "data_augmentation": True, "lr": values.random() * 1e-4, "nonlinear_classifier": False,
        "resnet18": False, "resnet_dropout": 0.1, "weight_decay": values.random() * 1e-4,
    }  # fmt: skip


def _resident(process: int) -> int:
    try:
        text = Path(f"/proc/{process}/status").read_text()
    except OSError:  # it has ended
        return 0
    return next((1024 * int(x.split()[1]) for x in text.splitlines() if x[:6] == "VmRSS:"), 0)


def _children(process: int) -> list[int]:
    found: list[int] = []
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            own = list(map(int, path.read_text().split()))
        except OSError:  # the thread has ended
            continue
        found += [each for child in own for each in (child, *_children(child))]
    return found
