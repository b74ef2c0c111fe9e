"""Replay recorded training steps with our algorithms and compare every weight.

`python -m shiftproof.testing.traces FILE…` prints the largest absolute deviation of any weight for
each file, and exits with code 1 if one exceeds 1e-8.

A trace is an `.npz` file: `meta` (JSON: algorithm, sizes, hyper-parameters, under DomainBed's
names), minibatches `x` [steps, domains, batch, inputs] and `y` [steps, domains, batch],
`init/NAME` the initial weights and `stepNN/NAME` those after step NN.  The network is
Linear(inputs, 24) → ReLU → Linear(24, 10) → ReLU (`feat0`, `feat1`) → Linear(10, classes)
(`head`), with the widths of the recorded weights.  Any other NAME is a module or parameter of the
algorithm itself.
"""

from __future__ import annotations

import json
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


def read_trace(path: Path) -> Trace:
    """Read a trace file and check that its parts fit; it runs no code from the file."""
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
    widths = [trace.init[f"{layer}.weight"].shape for layer in ("feat0", "feat1", "head")]
    inputs = [trace.x.shape[-1], *(width[0] for width in widths[:-1])]
    if [width[1] for width in widths] != inputs:
        return f"inputs of {inputs[0]} and layers of {[tuple(width) for width in widths]}"
    for number, step in enumerate(trace.steps, start=1):
        if missing := NETWORK - step.keys():
            return f"step{number:02}/{min(missing)} is missing"
        for name, weight in step.items():
            if name not in trace.init or trace.init[name].shape != weight.shape:
                return f"step{number:02}/{name} does not fit init/"
    return None


def build_algorithm(trace: Trace) -> Algorithm:
    """Return the trace's algorithm with its initial weights, in float64."""
    hidden, inputs = trace.init["feat0.weight"].shape
    classes, features = trace.init["head.weight"].shape
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        feat0=nn.Linear(inputs, hidden), relu0=nn.ReLU(),
        feat1=nn.Linear(hidden, features), relu1=nn.ReLU(),
    )  # fmt: skip
    name, given = translate(trace.algorithm, trace.hparams)
    cls = ALGORITHMS.get(name)
    task = Task((inputs,), classes, num_domains=trace.x.shape[1], regime="table")
    featurizer, head = nn.Sequential(layers), nn.Linear(features, classes)
    hparams = resolve(cls.Hparams, task.regime, given)
    built = cls(task, featurizer, head, hparams, torch.Generator().manual_seed(0))
    algorithm: Algorithm = built.double()
    with torch.no_grad():
        for name, parameter in _weights(algorithm).items():
            recorded = trace.init.get(name, trace.init.get(name.removesuffix(".weight")))
            if recorded is None:
                raise DataError(f"the trace of {trace.algorithm} lacks init/{name}")
            parameter.copy_(recorded)
    return algorithm


def largest_deviation(trace: Trace) -> float:
    """Replay the trace and return the largest |ours − recorded| over all weights and steps."""
    algorithm = build_algorithm(trace)
    algorithm.train()
    worst = 0.0
    for x, y, recorded in zip(trace.x, trace.y, trace.steps, strict=True):
        algorithm.update(Batch(x, y))
        ours = _weights(algorithm)
        for name, expected in recorded.items():
            weight = ours[name if name in ours else f"{name}.weight"].detach()
            deviation = (weight - expected).abs().max().item()
            worst = max(worst, deviation) if deviation == deviation else float("inf")
    return worst


def _weights(algorithm: Algorithm) -> dict[str, Tensor]:
    """Return the algorithm's parameters under the trace's names."""
    return {
        name.removeprefix("featurizer."): parameter
        for name, parameter in algorithm.named_parameters()
    }


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
