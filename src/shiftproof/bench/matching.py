"""What matching costs: the step of a small network, DomainNet's penalty, Table 1's full batches."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn

from shiftproof.bench.allocation import allocated_peak
from shiftproof.bench.measure import (
    Figure,
    Work,
    can_measure_memory,
    medians,
    peak_bytes,
    ratio_of,
    seconds_in_turn,
)
from shiftproof.bench.plain import PlainMatch, plain_gradients
from shiftproof.core.space import Regime, resolve
from shiftproof.core.types import Batch, Task
from shiftproof.learners.algorithms import ALGORITHMS, Algorithm
from shiftproof.matching.gradients import some_linear_head_gradients
from shiftproof.matching.pdm import MovingMatch
from shiftproof.matching.sampled_dimensions import SampledDimensions
from shiftproof.models import MODELS
from shiftproof.models.risk import logit_residual
from shiftproof.sweeps.estimate import bytes_of

# DomainNet: five training domains, a ResNet-50's features, 345 classes.
DOMAINS, BATCH, FEATURES, CLASSES = 5, 32, 2048, 345
# In float64 the plain version would take twice as much memory, hence so many classes.
FEWER_CLASSES = 32
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
    standing = {name: bytes_of(side.training_state()) for name, side in sides.items()}
    peaks = {name: allocated_peak(work) for name, work in _updates(sides, batch).items()}
    whole = {name: standing[name] + peaks[name] for name in sides}
    yield Figure(
        "step-memory",
        "peak memory of these steps, IDM / ERM, counted by allocation",
        whole["idm"] / whole["erm"],
        "≤",
        1.01,
        {"bytes held between steps": standing, "bytes more at the peak": peaks},
    )


class PenaltySides:
    """The gradient penalty of one step, forward and backward, in the fast and the plain way."""

    def __init__(self, classes: int, dtype: torch.dtype = torch.float32) -> None:
        torch.manual_seed(0)
        self._head = nn.Linear(FEATURES, classes, dtype=dtype)
        self._features = torch.randn(DOMAINS, BATCH, FEATURES, dtype=dtype)
        self._labels = torch.randint(classes, (DOMAINS, BATCH))
        self.forget()
        self.sides: dict[str, Callable[[], tuple[Tensor, ...]]] = {
            name: partial(self._outcome, way)
            for name, way in (("fast", self._by_fast), ("plain", self._by_plain))
        }

    def forget(self) -> None:
        """Begin with the moving averages anew."""
        self._fast = MovingMatch(GAMMA, corrected=True)
        self._plain = PlainMatch(GAMMA, corrected=True)

    def apart(self) -> float:
        """Return the largest difference of values and gradients, as a share of the largest."""
        outcomes = zip(self.sides["fast"](), self.sides["plain"](), strict=True)
        return max(float((a - b).abs().max() / b.abs().max()) for a, b in outcomes)

    def _outcome(self, way: Callable[[Tensor], Tensor]) -> tuple[Tensor, ...]:
        r = self._features.clone().requires_grad_()
        value = way(r)
        return value.detach(), *torch.autograd.grad(value, [r, *self._head.parameters()])

    def _by_fast(self, r: Tensor) -> Tensor:
        return self._fast.of_linear_head(r, logit_residual(self._head(r), self._labels))

    def _by_plain(self, r: Tensor) -> Tensor:
        return self._plain(plain_gradients(self._head, r, self._labels))


def penalty() -> Iterator[Figure]:
    """The gradient penalty at DomainNet's size, against plain torch."""
    whole = PenaltySides(CLASSES)
    taken = seconds_in_turn(whole.sides, 5, 1)
    yield Figure(
        "penalty",
        f"plain / fast time of the penalty, 5 × 32 samples, 2,048 features, {CLASSES} classes",
        ratio_of(taken, "plain", "fast"),
        "≥",
        3.0,
        {"seconds": medians(taken)},
    )
    yield Figure(
        "penalty-apart",
        "largest relative difference of value and gradients, in float64",
        PenaltySides(FEWER_CLASSES, torch.float64).apart(),
        "≤",
        1e-6,
        {"classes": FEWER_CLASSES, "in float32, with all classes": whole.apart()},
    )
    if can_measure_memory():
        whole.forget()  # the moving average is part of the cost
        peaks = {name: peak_bytes(work) for name, work in whole.sides.items()}
        yield Figure(
            "penalty-memory",
            "peak extra memory, fast / plain, moving average included",
            peaks["fast"] / peaks["plain"],
            "≤",
            1 / 3,
            {"bytes": peaks},
        )


def estimate() -> Iterator[Figure]:
    """Some dimensions in place of all, at DomainNet's size: how far off, and how much faster."""
    torch.manual_seed(0)
    head = nn.Linear(FEATURES, CLASSES)
    features = torch.randn(DOMAINS, BATCH, FEATURES)
    residual = logit_residual(head(features), torch.randint(CLASSES, (DOMAINS, BATCH))).detach()
    total = CLASSES * (FEATURES + 1)
    generator = torch.Generator().manual_seed(0)
    match = MovingMatch(0.0)
    exact = float(match.of_linear_head(features, residual))
    sampled = SampledDimensions(max(total // 100, 1), redrawn=True)

    def by_sample() -> float:
        dims = sampled(total, generator)
        return float(match(some_linear_head_gradients(features, residual, dims)))

    found = [by_sample() / exact for _ in range(50)]
    taken = seconds_in_turn(
        {"exact": lambda: match.of_linear_head(features, residual), "sample": by_sample}, 5, 1
    )
    yield Figure(
        "estimate",
        "relative standard deviation of the penalty of 1% of the dimensions, redrawn each step",
        statistics.stdev(found),
        "≤",
        0.05,
        {
            "mean of 50 draws / exact": statistics.fmean(found),
            "times as fast": ratio_of(taken, "exact", "sample"),
        },
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


def _updates(sides: dict[str, Algorithm], batch: Batch) -> dict[str, Work]:
    return {name: partial(algorithm.update, batch) for name, algorithm in sides.items()}
