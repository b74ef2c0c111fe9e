"""The cost of matching: a small network, the size of DomainNet, the full batches of Table 1."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.figure import Figure, can_measure_memory, peak_bytes
from benchmarks.plain import PlainMatch, plain_gradients
from shiftproof.core.space import Regime, resolve
from shiftproof.core.types import Batch, Task
from shiftproof.learners.algorithms import ALGORITHMS, Algorithm
from shiftproof.matching import InterDomainMatching
from shiftproof.matching.head_gradients import gradients_of
from shiftproof.matching.pdm import MovingMatch
from shiftproof.paper.measure import Work, allocated_peak, medians, ratio_of, seconds_in_turn
from shiftproof.paper.running_time import batch_for, built
from shiftproof.sweeps.estimate import bytes_of

# DomainNet: five training domains, a ResNet-50's features, 345 classes.
DOMAINS, BATCH, FEATURES, CLASSES = 5, 32, 2048, 345
# Fewer classes in float64, since the plain version needs much memory.
FEWER_CLASSES = 32
GAMMA = 0.95
OWN_LOOP = "InterDomainMatching"


def step() -> Iterator[Figure]:
    """Measure IDM's step against ERM's: DomainBed's MNIST network, two domains of 64, fp32."""
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
    """The gradient penalty of one step, forward and backward, in the fast and plain versions."""

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
        """Reset the moving averages."""
        self._fast = MovingMatch(GAMMA, corrected=True)
        self._plain = PlainMatch(GAMMA, corrected=True)

    def apart(self) -> float:
        """Return the largest difference of values and gradients, relative to the largest value."""
        outcomes = zip(self.sides["fast"](), self.sides["plain"](), strict=True)
        return max(float((a - b).abs().max() / b.abs().max()) for a, b in outcomes)

    def _outcome(self, way: Callable[[Tensor], Tensor]) -> tuple[Tensor, ...]:
        r = self._features.clone().requires_grad_()
        value = way(r)
        return value.detach(), *torch.autograd.grad(value, [r, *self._head.parameters()])

    def _by_fast(self, r: Tensor) -> Tensor:
        penalty: Tensor = self._fast(gradients_of(self._head, r, self._labels, self._head(r)))
        return penalty

    def _by_plain(self, r: Tensor) -> Tensor:
        return self._plain(plain_gradients(self._head, r, self._labels))


def penalty() -> Iterator[Figure]:
    """Measure the gradient penalty at DomainNet's size against plain torch."""
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


class LoopOfYourOwn:
    """A training loop with cross-entropy and `InterDomainMatching`, on an algorithm's network."""

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        self._matching = InterDomainMatching(gradient_warmup=0)

    def update(self, batch: Batch) -> None:
        """Take one step."""
        domains = torch.arange(len(batch.y)).repeat_interleave(batch.y.shape[1])
        labels = batch.y.flatten()
        features = self._algorithm.featurizer(batch.x.flatten(0, 1))
        logits = self._algorithm.head(features)
        penalty = self._matching(features, logits, labels, domains)
        self._algorithm.descend(nn.functional.cross_entropy(logits, labels) + penalty)

    def training_state(self) -> dict[str, Any]:
        """Return all state that changes during training."""
        return {**self._algorithm.training_state(), "matching": self._matching.state_dict()}


Side = Algorithm | LoopOfYourOwn


def matcher_problem() -> tuple[Task, Batch]:
    """Return the task and a batch of features at DomainNet's size."""
    task = Task((FEATURES,), CLASSES, DOMAINS, "features")
    return task, batch_for(task, BATCH)


def matcher_side(name: str, task: Task, **hparams: object) -> Side:
    """Return an algorithm, or `OWN_LOOP`, that matches from the first step."""
    torch.manual_seed(0)
    cls = ALGORITHMS.get("idm" if name == OWN_LOOP else name)
    settings = resolve(cls.Hparams, task.regime, {"gradient_warmup": 0, **hparams})
    network = nn.LayerNorm(FEATURES), nn.Linear(FEATURES, CLASSES)
    algorithm = cls(task, *network, settings, torch.Generator().manual_seed(0))
    return LoopOfYourOwn(algorithm) if name == OWN_LOOP else algorithm


def matcher() -> Iterator[Figure]:
    """Measure a step of `idm-auto`, and one with `InterDomainMatching`, against a step of `idm`."""
    task, batch = matcher_problem()
    names = ("idm", "idm-auto", OWN_LOOP)
    sides = {name: partial(matcher_side(name, task).update, batch) for name in names}
    taken = seconds_in_turn(sides, 15, 2)
    sides.clear()
    peaks = {}
    if can_measure_memory():
        peaks = {name: peak_bytes(partial(_two_steps, name, task, batch)) for name in names}
    size = f"{DOMAINS} × {BATCH} samples, {FEATURES:,} features, {CLASSES} classes"
    for name in names[1:]:
        yield Figure(
            name, f"{name} step / IDM step, {size}", ratio_of(taken, name, "idm"), "≤", 1.05,
            {"seconds": {side: medians(taken)[side] for side in ("idm", name)}},
        )  # fmt: skip
        if peaks:
            yield Figure(
                f"{name}-memory", "peak memory of two steps from the start, against IDM's",
                peaks[name] / peaks["idm"], "≤", 1.05,
                {"bytes": {side: peaks[side] for side in ("idm", name)}},
            )  # fmt: skip


def _two_steps(name: str, task: Task, batch: Batch) -> None:
    side = matcher_side(name, task)
    side.update(batch)
    side.update(batch)


def table1() -> Iterator[Figure]:
    """Measure one step of Table 1's Colored MNIST: two full domains of 25,000, hidden 433, fp32."""
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
        1.35,
        {"seconds": medians(taken)},
    )


def _updates(sides: dict[str, Algorithm], batch: Batch) -> dict[str, Work]:
    return {name: partial(algorithm.update, batch) for name, algorithm in sides.items()}
