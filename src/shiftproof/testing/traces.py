"""Replay recorded training steps with our algorithms and compare every weight.

`python -m shiftproof.testing.traces FILE…` prints the largest absolute deviation of any weight for
each file, and exits with code 1 if one exceeds 1e-8.

A trace is an `.npz` file: `meta` (JSON: algorithm, sizes, hyper-parameters, under DomainBed's
names), minibatches `x` [steps, domains, batch, inputs] and `y` [steps, domains, batch],
`init/NAME` the initial weights and `stepNN/NAME` those after step NN.  The network is
Linear(inputs, 24) → ReLU → Linear(24, 10) → ReLU (`feat0`, `feat1`) → Linear(10, classes)
(`head`), with the widths of the recorded weights.  Any other NAME is a module, parameter or buffer
of the algorithm itself.  `draws/NAME` [steps, …] are the random numbers that the original drew;
`upstream` says how our algorithm uses them, and what it does differently on purpose.
"""

from __future__ import annotations

import json
import math
import sys
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.core.errors import DataError, ShiftproofError
from shiftproof.core.space import resolve
from shiftproof.core.types import Batch, Task
from shiftproof.learners.algorithms import ALGORITHMS, Algorithm
from shiftproof.sweeps.domainbed.names import translate
from shiftproof.testing.upstream import REPLAYS, Replay

TOLERANCE = 1e-8
NETWORK = {f"{layer}.{part}" for layer in ("feat0", "feat1", "head") for part in ("weight", "bias")}


class Trace(NamedTuple):
    """The contents of a trace file, as float64 tensors."""

    algorithm: str
    hparams: dict[str, object]
    x: Tensor
    y: Tensor
    init: dict[str, Tensor]
    steps: list[dict[str, Tensor]]
    draws: dict[str, Tensor]


def read_trace(path: Path) -> Trace:
    """Read a trace file and check that its parts fit; no code from the file is run."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            meta = json.loads(str(arrays["meta"]))
            weights: dict[str, dict[str, Tensor]] = {}
            for key in arrays.files:
                group, slash, name = key.partition("/")
                if slash:
                    weights.setdefault(group, {})[name] = torch.from_numpy(arrays[key]).double()
            trace = Trace(
                algorithm=str(meta["algorithm"]),
                hparams=dict(meta["hparams"]),
                x=torch.from_numpy(arrays["x"]).double(),
                y=torch.from_numpy(arrays["y"]).long(),
                init=weights.pop("init"),
                draws=weights.pop("draws", {}),
                steps=[weights[group] for group in sorted(weights)],
            )
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, BadZipFile) as e:
        raise DataError(f"{path} is not a readable trace: {e}") from e
    except zlib.error as e:
        raise DataError(f"{path} is damaged: {e}") from e
    if problem := _problem(trace):
        raise DataError(f"{path} is not a complete trace: {problem}")
    return trace


def _problem(trace: Trace) -> str | None:
    """Return what is missing or does not fit, or None."""
    missing = NETWORK - trace.init.keys()
    if missing:
        return f"init/{min(missing)} is missing"
    if not trace.steps or not len(trace.steps) == len(trace.x) == len(trace.y):
        return f"{len(trace.steps)} steps for {len(trace.x)} inputs and {len(trace.y)} labels"
    for name, drawn in trace.draws.items():
        if drawn.shape[:1] != trace.x.shape[:1]:
            return f"{len(trace.steps)} steps and draws/{name} of shape {tuple(drawn.shape)}"
    for layer in ("feat0", "feat1", "head"):
        if trace.init[f"{layer}.weight"].dim() != 2:
            return f"init/{layer}.weight is not a matrix"
    for number, step in enumerate(trace.steps, start=1):
        if missing := NETWORK - step.keys():
            return f"step{number:02}/{min(missing)} is missing"
        for name, weight in step.items():
            if name not in trace.init or trace.init[name].shape != weight.shape:
                return f"step{number:02}/{name} does not fit init/"
    return None


def build_algorithm(trace: Trace) -> Algorithm:
    """Return the trace's algorithm with its initial weights, in float64."""
    name, given = translate(trace.algorithm, trace.hparams)
    cls, replay = ALGORITHMS.get(name), _replay(trace)
    hidden, features, classes = (
        len(trace.init[f"{layer}.weight"]) for layer in ("feat0", "feat1", "head")
    )
    _, domains, _, *input_shape = trace.x.shape
    task = Task((*input_shape,), classes, num_domains=domains, regime="table")
    inputs = cls.network_task(task).input_shape
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        feat0=nn.Linear(math.prod(inputs), hidden), relu0=nn.ReLU(),
        feat1=nn.Linear(hidden, features), relu1=nn.ReLU(),
    )  # fmt: skip
    if len(inputs) > 1:
        layers = OrderedDict(flat=nn.Flatten(), **layers)
    hparams = resolve(cls.Hparams, task.regime, given | replay.settings(trace.hparams))
    generator = torch.Generator().manual_seed(0)
    built = cls(task, nn.Sequential(layers), nn.Linear(features, classes), hparams, generator)
    algorithm: Algorithm = built.double()
    with torch.no_grad():
        for name, parameter in algorithm.named_parameters():
            name = replay.name_of(name)
            recorded = trace.init.get(name, trace.init.get(name.removesuffix(".weight")))
            if recorded is None:
                raise DataError(f"the trace of {trace.algorithm} lacks init/{name}")
            if recorded.shape != parameter.shape:
                raise DataError(
                    f"init/{name} has shape {tuple(recorded.shape)}, not {tuple(parameter.shape)}"
                )
            parameter.copy_(recorded)
    return algorithm


def largest_deviation(trace: Trace) -> float:
    """Replay the trace and return the largest |ours − recorded| over all weights and steps."""
    algorithm, replay = build_algorithm(trace), _replay(trace)
    algorithm.train()
    worst = 0.0
    for step, (x, y, recorded) in enumerate(zip(trace.x, trace.y, trace.steps, strict=True)):
        with replay.step(algorithm, {name: drawn[step] for name, drawn in trace.draws.items()}):
            algorithm.update(Batch(x, y))
        state = (*algorithm.named_parameters(), *algorithm.named_buffers())
        ours = {replay.name_of(name): value.detach() for name, value in state}
        for name, expected in recorded.items():
            deviation = (ours[name if name in ours else f"{name}.weight"] - expected).abs().max()
            # A comparison with NaN is false.
            worst = max(worst, deviation.item()) if deviation == deviation else float("inf")
    return worst


def _replay(trace: Trace) -> Replay:
    return REPLAYS.get(trace.algorithm, Replay())


def main(arguments: Sequence[str]) -> int:
    """Replay every file and return the exit code."""
    if not arguments:
        print("usage: python -m shiftproof.testing.traces FILE…", file=sys.stderr)
        return 2
    failed = False
    for argument in arguments:
        try:
            deviation = largest_deviation(read_trace(Path(argument)))
        except ShiftproofError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        good = deviation <= TOLERANCE
        failed |= not good
        print(f"{'ok  ' if good else 'FAIL'}  {deviation:9.2e}  {Path(argument).name}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
