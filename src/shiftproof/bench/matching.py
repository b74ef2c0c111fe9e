"""What matching costs: the step of a small network, DomainNet's penalty, Table 1's full batches."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn

from shiftproof.algorithms import ALGORITHMS, Algorithm
from shiftproof.bench.measure import (
    Figure,
    Work,
    can_measure_memory,
    lowest_peaks,
    medians,
    peak_bytes,
    ratio_of,
    seconds_in_turn,
)
from shiftproof.bench.plain import PlainMatch, plain_gradients
from shiftproof.models import MODELS
from shiftproof.penalties.pdm import MovingMatch
from shiftproof.penalties.risk import logit_residual
from shiftproof.space import Regime, resolve
from shiftproof.types import Batch, Task

# DomainNet: five training domains, a ResNet-50's features, 345 classes.
DOMAINS, BATCH, FEATURES, CLASSES = 5, 32, 2048, 345
GAMMA = 0.95


def built(
    name: str,
    task: Task,
    backbone: str,
    model: dict[str, object] | None = None,
    hparams: dict[str, object] | None = None,
) -> Algorithm:
    """Return an algorithm on a network, of fixed seeds."""
    torch.manual_seed(0)
    network = resolve(MODELS.get(backbone), task.regime, model or {}).build(task)
    cls = ALGORITHMS.get(name)
    settings = resolve(cls.Hparams, task.regime, hparams or {})
    generator = torch.Generator().manual_seed(0)
    return cls(task, network.featurizer, network.head, settings, generator)


def batch_for(task: Task, size: int, seed: int = 0) -> Batch:
    """Return random inputs of a task."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(task.num_domains, size, *task.input_shape, generator=generator)
    return Batch(x, torch.randint(task.num_classes, x.shape[:2], generator=generator))


def step() -> Iterator[Figure]:
    """IDM's step against ERM's: DomainBed's network for digits, two domains of 64, fp32."""
    regime: Regime = "small-image"
    task = Task((2, 28, 28), 2, 2, regime)
    batch = batch_for(task, 64)
    sides = {
        "idm": built("idm", task, "mnist-cnn", hparams={"gradient_warmup": 0}),
        "erm": built("erm", task, "mnist-cnn"),
    }
    taken = seconds_in_turn(_updates(sides, batch), 31, 3)
    yield Figure(
        "step",
        "IDM step / ERM step, MNIST network, 2 × 64, fp32",
        ratio_of(taken, "idm", "erm"),
        "≤",
        1.03,
        {"seconds": medians(taken)},
    )
    if can_measure_memory():
        peaks = lowest_peaks(_updates(sides, batch))
        yield Figure(
            "step-memory",
            "peak memory of these steps, IDM / ERM",
            peaks["idm"] / peaks["erm"],
            "≤",
            1.01,
            {"bytes": peaks},
        )


def penalty() -> Iterator[Figure]:
    """The gradient penalty at DomainNet's size, forward and backward, against plain torch."""
    head, features, labels = _domain_net()
    fast, plain = MovingMatch(GAMMA, corrected=True), PlainMatch(GAMMA, corrected=True)
    outcomes: dict[str, tuple[Tensor, ...]] = {}

    def by_fast(r: Tensor) -> Tensor:
        return fast.of_linear_head(r, logit_residual(head(r), labels))

    def by_plain(r: Tensor) -> Tensor:
        return plain(plain_gradients(head, r, labels))

    def side(name: str) -> None:
        r = features.clone().requires_grad_()
        value = (by_fast if name == "fast" else by_plain)(r)
        outcomes[name] = (value.detach(), *torch.autograd.grad(value, [r, *head.parameters()]))

    sides: dict[str, Work] = {name: partial(side, name) for name in ("fast", "plain")}
    taken = seconds_in_turn(sides, 5, 1)
    apart = max(
        float((a - b).abs().max() / b.abs().max())
        for a, b in zip(outcomes["fast"], outcomes["plain"], strict=True)
    )
    yield Figure(
        "penalty",
        "plain / fast time of the penalty, 5 × 32 samples, 2,048 features, 345 classes",
        ratio_of(taken, "plain", "fast"),
        "≥",
        3.0,
        {"seconds": medians(taken)},
    )
    yield Figure(
        "penalty-apart",
        "largest relative difference of value and gradients",
        apart,
        "≤",
        1e-5,
        {"dtype": "float32"},
    )
    outcomes.clear()
    if can_measure_memory():
        fast.average.average = plain.average = None  # the moving average is part of the cost
        peaks = {name: peak_bytes(work) for name, work in sides.items()}
        yield Figure(
            "penalty-memory",
            "peak extra memory, fast / plain, moving average included",
            peaks["fast"] / peaks["plain"],
            "≤",
            1 / 3,
            {"bytes": peaks},
        )


def table1() -> Iterator[Figure]:
    """One step of Table 1's Colored MNIST: all 25,000 of two domains, hidden 433, fp32."""
    task = Task((2, 14, 14), 2, 2, "small-image")
    batch = batch_for(task, 25_000)
    model: dict[str, object] = {"hidden": 433, "depth": 2, "single_logit": True}
    settings: dict[str, object] = {
        "gradient_warmup": 0,
        "gradient_ema": 0.0,
        "trim": 1,
        "match_representations": False,
    }
    sides = {
        "idm": built("idm", task, "mlp", model, settings),
        "erm": built("erm", task, "mlp", model),
    }
    taken = seconds_in_turn(_updates(sides, batch), 7, 1)
    yield Figure(
        "table1",
        "IDM step / ERM step, full batches of 2 × 25,000, hidden 433, fp32, exact matching",
        ratio_of(taken, "idm", "erm"),
        "≤",
        1.6,
        {"seconds": medians(taken)},
    )


def _domain_net() -> tuple[nn.Linear, Tensor, Tensor]:
    torch.manual_seed(0)
    head = nn.Linear(FEATURES, CLASSES)
    features = torch.randn(DOMAINS, BATCH, FEATURES)
    return head, features, torch.randint(CLASSES, (DOMAINS, BATCH))


def _updates(sides: dict[str, Algorithm], batch: Batch) -> dict[str, Work]:
    return {name: partial(algorithm.update, batch) for name, algorithm in sides.items()}
