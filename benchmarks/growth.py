"""How costs grow with domains and classes; the overhead of a sweep; the start of the command."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

from benchmarks.figure import Figure, can_measure_memory, peak_bytes
from shiftproof.core.files import read_json
from shiftproof.data.load import DataRequest
from shiftproof.matching.head_gradients import gradients_of
from shiftproof.matching.pdm import MovingMatch
from shiftproof.paper.measure import medians, seconds_in_turn
from shiftproof.sweeps.executors.local import LocalExecutor
from shiftproof.sweeps.jobs import SweepData, Variant
from shiftproof.sweeps.presets import PRESETS
from shiftproof.sweeps.sweep import make_plan, run_sweep

# The largest exponent that counts as linear.
LINEAR = 1.1
FEATURES, BATCH = 512, 32


def growth() -> Iterator[Figure]:
    """Measure time and memory of the penalty with 2 to 16 domains, and with 60 to 1,000 classes."""
    scales: dict[str, tuple[Sequence[int], Callable[[int], _Match]]] = {
        "domains": ((2, 4, 8, 16), lambda domains: _Match(domains, 100)),
        "classes": ((62, 125, 250, 500, 1000), lambda classes: _Match(3, classes)),
    }
    for name, (sizes, make) in scales.items():
        sides = {str(size): make(size) for size in sizes}
        taken = medians(seconds_in_turn(sides, 7, 1))
        yield Figure(
            f"growth-{name}",
            f"exponent of the time of a step in the number of {name}, {sizes[0]} to {sizes[-1]}",
            exponent(sizes, list(taken.values())),
            "≤",
            LINEAR,
            {"seconds": taken},
        )
        if can_measure_memory():
            peaks = [peak_bytes(make(size)) for size in sizes]
            yield Figure(
                f"growth-{name}-memory",
                f"exponent of the peak memory of a first step in the number of {name}",
                exponent(sizes, peaks),
                "≤",
                LINEAR,
                {"bytes": dict(zip(map(str, sizes), peaks, strict=True))},
            )


class _Match:
    """The penalty of one step, forward and backward."""

    def __init__(self, domains: int, classes: int) -> None:
        torch.manual_seed(0)
        self._head = nn.Linear(FEATURES, classes)
        self._features = torch.randn(domains, BATCH, FEATURES)
        self._labels = torch.randint(classes, (domains, BATCH))
        self._match = MovingMatch(0.95, corrected=True)

    def __call__(self) -> None:
        r = self._features.clone().requires_grad_()
        gradients = gradients_of(self._head, r, self._labels, self._head(r))
        self._match(gradients).backward()


def overhead() -> Iterator[Figure]:
    """Measure a sweep's seconds per run besides training and evaluation: 12 runs against 3."""
    preset = PRESETS["lite"]
    data = SweepData("colored-mnist", preset.request(DataRequest("colored-mnist")))
    spent, trained, counts = [], [], []
    for draws in (1, 4):
        planned = make_plan(
            [data],
            [Variant.plain("erm")],
            preset,
            ["oracle"],
            n_hparams=draws,
            trials=1,
            steps=50,
            device="cpu",
        )
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            result = run_sweep(planned, Path(folder), executor=LocalExecutor(1))
            spent.append(time.perf_counter() - start)
            trained.append(_seconds(Path(folder)))
            counts.append(len(planned.jobs))
        if result.failures:
            raise RuntimeError(f"runs of the sweep failed: {result.failures}")
    more = counts[1] - counts[0]
    beyond = (spent[1] - trained[1] - (spent[0] - trained[0])) / more
    yield Figure(
        "overhead",
        "seconds of a sweep per run, beyond training and evaluating",
        beyond,
        "≤",
        1.0,
        {"runs": counts, "seconds": [round(s, 2) for s in spent]},
    )


def startup() -> Iterator[Figure]:
    """Measure the seconds of `shiftproof --help`."""
    command = [sys.executable, "-m", "shiftproof", "--help"]
    ask = partial(subprocess.run, command, check=True, capture_output=True)
    taken = medians(seconds_in_turn({"help": ask}, 7, 1))
    yield Figure("startup", "seconds of shiftproof --help", taken["help"], "≤", 0.4)


def _seconds(folder: Path) -> float:
    """Return the seconds of training and evaluation of all runs in a folder."""
    return sum(float(read_json(path)["seconds"]) for path in folder.rglob("done.json"))


def exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """Return the slope of log values over log sizes, which is 1 for linear growth.

    >>> round(exponent([1, 2, 4], [3.0, 6.0, 12.0]), 6)
    1.0
    """
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])
