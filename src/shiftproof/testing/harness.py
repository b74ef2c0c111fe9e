"""Helpers for the contract's checks: easy problems, training steps, and exact comparison.

A check is a function that raises AssertionError with the broken rule.  Tensors on the meta device
have shapes but no values, so reading one fails there.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor

from shiftproof.core.space import Regime
from shiftproof.core.types import Batch
from shiftproof.data import Domain, DomainDataset
from shiftproof.data.sampling import BatchSampler
from shiftproof.learners.algorithms import Algorithm
from shiftproof.training.configure import configure
from shiftproof.training.evaluate import evaluate
from shiftproof.training.evaluation_sets import EvaluationSet
from shiftproof.training.trainer import build_algorithm

STEPS = 6
BATCH = 8
PER_DOMAIN = 24

Hparams = Mapping[str, object]


def require(condition: bool, otherwise: str) -> None:
    """Raise AssertionError with this message unless the condition holds."""
    if not condition:
        raise AssertionError(otherwise)


def problem(
    *, domains: int = 3, classes: int = 3, shape: tuple[int, ...] = (6,), backbone: str = "mlp"
) -> DomainDataset:
    """Return data whose classes lie around corners of a cube, shifted slightly per domain."""
    generator = torch.Generator().manual_seed(0)
    corners = torch.randint(2, (classes, *shape), generator=generator) * 2.0 - 1
    parts = []
    for index in range(domains):
        y = torch.randint(classes, (PER_DOMAIN,), generator=generator)
        noise = torch.randn(PER_DOMAIN, *shape, generator=generator)
        x = corners[y] + 0.2 * noise + 0.1 * index
        if len(shape) == 3:
            x = (x * 50 + 127).clamp(0, 255).to(torch.uint8)
        parts.append(Domain(f"domain {index}", x, y))
    regime: Regime = "small-image" if len(shape) == 3 else "table"
    names = tuple(map(str, range(classes)))
    return DomainDataset("contract", tuple(parts), names, regime, backbone, eval_every=0)


def number_problem(domains: int = 3) -> DomainDataset:
    """Return data whose labels are a linear function of the inputs, in standard units."""
    generator = torch.Generator().manual_seed(0)
    slopes = torch.randn(6, 1, generator=generator, dtype=torch.float64)
    parts = []
    for index in range(domains):
        x = torch.randn(PER_DOMAIN, 6, generator=generator) + 0.1 * index
        y = x.double() @ slopes / slopes.norm(dim=0)
        parts.append(Domain(f"domain {index}", x, y.squeeze(-1)))
    return DomainDataset(
        "contract", tuple(parts), (), "table", "mlp", eval_every=0, targets=("y1",)
    )


def build(
    name: str,
    data: DomainDataset,
    hparams: Hparams,
    *,
    seed: int = 0,
    loss: str | None = None,
    **model: Any,
) -> Algorithm:
    """Return the untrained algorithm, built as in the training loop."""
    if data.backbone == "mlp":
        model = {"hidden": 32, **model}
    config = configure(
        data,
        name,
        hparams={**model, **hparams},
        seed=seed,
        device="cpu",
        fewest_training_domains=1,
        loss=loss,
    )
    return build_algorithm(config, config.task(data))


def batch_of(data: DomainDataset, step: int, size: int = BATCH) -> Batch:
    """Return the batch of one step, drawn as in the training loop."""
    everything = [np.arange(len(domain)) for domain in data.domains]
    return BatchSampler(data.domains, everything, size, seed=0).batch(step)


def take_steps(
    algorithm: Algorithm, data: DomainDataset, *, steps: int = STEPS, start: int = 0
) -> list[dict[str, Tensor]]:
    """Train for some steps and return the measurements of each."""
    algorithm.train()
    return [algorithm.update(batch_of(data, step)) for step in range(start, start + steps)]


def mean_risk(algorithm: Algorithm, data: DomainDataset) -> float:
    """Return the risk on all data, without penalties, with all domains weighted equally."""
    parts = [EvaluationSet(d.name, d, np.arange(len(d))) for d in data.domains]
    return float(np.mean([evaluate(algorithm, part).risk for part in parts]))


@contextmanager
def global_random_state_unchanged(who: str) -> Iterator[None]:
    """Raise if the code within changes a global random state."""

    def states() -> dict[str, object]:
        numpy_state = np.random.get_state(legacy=False)
        return {
            "torch": torch.get_rng_state(),
            "random": random.getstate(),
            "numpy": {**numpy_state, "state": {k: str(v) for k, v in numpy_state["state"].items()}},
        }

    before = states()
    yield
    difference = first_difference(before, states())
    if difference is not None:
        library = difference.partition("/")[0]
        raise AssertionError(f"{who} draws from the global generator of {library}")


def first_difference(first: Any, second: Any) -> str | None:
    """Return the path to the first value in nested containers that differs, or None."""
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        same = first.dtype == second.dtype and torch.equal(first, second)
        return None if same else ""
    if isinstance(first, dict) and isinstance(second, dict):
        if first.keys() != second.keys():
            return "/".join(sorted(map(str, first.keys() ^ second.keys())))
        pairs = [(key, first[key], second[key]) for key in first]
    elif isinstance(first, list | tuple) and isinstance(second, list | tuple):
        if len(first) != len(second):
            return "length"
        pairs = [(i, *pair) for i, pair in enumerate(zip(first, second, strict=True))]
    else:
        return None if first == second else ""
    for key, one, other in pairs:
        inner = first_difference(one, other)
        if inner is not None:
            return f"{key}/{inner}".rstrip("/")
    return None


def take_steps_on_meta(name: str, data: DomainDataset, hparams: Hparams) -> None:
    """Take a few steps; reading a value raises."""
    algorithm = _on_meta(build(name, data, hparams))
    algorithm.train()
    with mock.patch.object(torch, "autocast", _autocast_on_meta):
        for step in range(STEPS):
            algorithm.update(batch_of(data, step).to(torch.device("meta")))


def _on_meta(algorithm: Algorithm) -> Algorithm:
    # In place, so that the optimisers keep the same parameters.
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        return algorithm.to("meta")
    finally:
        torch.__future__.set_swap_module_params_on_conversion(before)


def _autocast_on_meta(device_type: str, *args: Any, **kwargs: Any) -> Any:
    # Autocast does not support the meta device.
    return _AUTOCAST("cpu" if device_type == "meta" else device_type, *args, **kwargs)


_AUTOCAST = torch.autocast
