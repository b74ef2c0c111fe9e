"""Small networks for rows of numbers: many trained together, averaged, stopped by held-out domains.

A network has two hidden layers of rectified units.  All networks of one call, for every held-out
fold and every seed, share their batches: a layer is one product of stacked matrices, and a fold is
left out by weights of 0 for its rows.  The gradients of the layers are written out, which saves
copies as large as a batch times all networks.  The optimiser is AdamW (Loshchilov and Hutter, 2019)
with a short warm-up and then a constant rate.  What is used are weights averaged over the steps
(Shamir and Zhang, 2013),

    θ̄_t = (1 − (η+1)/(t+η)) θ̄_{t−1} + (η+1)/(t+η) θ_t,   η = 3,

which take the place of a falling rate and can be read at any step: so held-out domains choose when
to stop.  What is predicted is the mean over seeds of the probabilities, or of the numbers.

Networks may also match their domains as IDM does (`learners.matched`).  Then every batch holds
equally many rows of each domain.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shiftproof.core.types import CROSS_ENTROPY
from shiftproof.learners.candidate import OPERATIONS_A_SECOND, Candidate, Size, side_by_side
from shiftproof.learners.criterion import criterion_of
from shiftproof.learners.encoding import fitted_encoder
from shiftproof.learners.matched import MatchedProblems
from shiftproof.learners.samples import Samples
from shiftproof.models.risk import loss_named

BATCH = 256
# Adam's own rate, and AdamW's own decay.
RATE, DECAY, BETAS = 1e-3, 1e-2, (0.9, 0.999)
WARMUP = 20
# Values that are sorted, matched and differentiated, on one core.
SORTED_A_SECOND = 2e7
ETA = 3


def stops(rows: int) -> tuple[int, ...]:
    """Return after how many steps a network of so many rows may stop: up to 20 epochs.

    Few rows get 400 steps all the same, and many rows 3,200, since steps are what costs time.

    >>> stops(500), stops(10_000)
    ((50, 100, 200, 400), (97, 195, 390, 781))
    """
    most = min(max(20 * rows // BATCH, 400), 3200)
    return most // 8, most // 4, most // 2, most


# Weights and biases of three layers, of all networks side by side.
Layers = list[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class NetworkCandidate(Candidate):
    """An ensemble of small networks; the variants are numbers of steps.

    ``matched`` networks match the gradients and representations of their domains.
    """

    name: str = "networks"
    variants: Sequence[int] = stops(0)
    width: int = 64
    seeds: int = 4
    matched: bool = False

    def predictions(self, train: Samples, x: np.ndarray, seed: int) -> np.ndarray:
        """Train once and predict ``x`` after each number of steps."""
        ready = fitted_encoder(train, ranks=True)
        rows = ready.transform(x)
        stops = self._train(ready.transform(train.x), train, train.weights()[None], seed)
        return np.stack([_predicted(layers, rows, self.seeds, train.loss)[0] for layers in stops])

    def seconds(self, size: Size) -> float:
        """Three products forth and six back, in every step."""
        weights = self.width * (size.columns + self.width + size.outputs)
        products = 6 * weights / OPERATIONS_A_SECOND
        sorting = (self.width + 1) * (size.outputs + 1) / SORTED_A_SECOND if self.matched else 0.0
        return max(self.variants) * BATCH * self.seeds * (products + sorting)

    @contextmanager
    def limited(self, threads: int) -> Iterator[None]:
        """Let torch use no more threads, meanwhile."""
        before = torch.get_num_threads()
        torch.set_num_threads(min(threads, before))
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def held_out(self, samples: Samples, folds: np.ndarray, seed: int) -> np.ndarray:
        """Predict all folds by networks that are trained together.

        Columns are scaled once, by all rows: the number of steps is judged, not the scale.
        Training ends where more steps did worse; still more, which take the longest, count as that.
        """
        rows = fitted_encoder(samples, ranks=True).transform(samples.x)
        names = np.unique(folds)
        weights = np.stack([folds != fold for fold in names]) * samples.weights()
        found = np.empty((len(self.variants), len(samples), samples.outputs))
        criterion = criterion_of(samples)
        risks: list[float] = []
        for variant, layers in enumerate(self._train(rows, samples, weights, seed)):
            predicted = _predicted(layers, rows, self.seeds, samples.loss)
            for place, fold in enumerate(names):
                found[variant, folds == fold] = predicted[place, folds == fold]
            risks.append(criterion.calibrated_risk(found[variant], samples))
            if risks[-1] > min(risks):
                found[variant + 1 :] = found[variant]
                break
        return found

    def fit(self, train: Samples, variant: int, seed: int) -> Any:
        """Return encoder and networks as a pipeline."""
        from sklearn.pipeline import Pipeline  # type: ignore[import-untyped]

        ready = fitted_encoder(train, ranks=True)
        short = replace(self, variants=(variant,))
        (layers,) = short._train(ready.transform(train.x), train, train.weights()[None], seed)
        made = _voting(layers, train.classes) if train.classes else _numbers(layers)
        return Pipeline([("encoder", ready), ("model", made)])

    def _train(
        self, rows: np.ndarray, samples: Samples, weights: np.ndarray, seed: int
    ) -> Iterator[Layers]:
        sizes = (rows.shape[1], self.width, self.width, samples.outputs)
        return trained_networks(
            torch.from_numpy(rows).float(),
            torch.from_numpy(samples.y),
            torch.from_numpy(weights).float(),
            sizes,
            self.seeds,
            self.variants,
            seed,
            torch.from_numpy(np.unique(samples.domain, return_inverse=True)[1])
            if self.matched
            else None,
            samples.loss,
        )


def trained_networks(
    x: Tensor,
    y: Tensor,
    weights: Tensor,
    sizes: Sequence[int],
    seeds: int,
    stops: Sequence[int],
    seed: int,
    domain: Tensor | None = None,
    loss: str = CROSS_ENTROPY,
) -> Iterator[Layers]:
    """Train ``seeds`` networks for each row of ``weights`` [problems, n]; yield averages.

    x [n, d] and y [n] or [n, targets] are the samples; ``sizes`` are those of the layers, from d to
    the outputs.  With ``domain`` [n], 0, 1, …, the domains of a problem, of which it uses all rows
    or none, are matched.  Of each layer, weights [networks, in, out] and biases [networks, 1, out],
    after each number of steps in ``stops``, which rise; networks of one problem stand together.
    """
    generator = torch.Generator().manual_seed(seed)
    measure = loss_named(loss)
    networks = len(weights) * seeds
    layers: Layers = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        # Problems start from the same weights: their difference is that of their samples.
        start = torch.randn(seeds, fan_in, fan_out, generator=generator) * (2 / fan_in) ** 0.5
        bias = torch.zeros(networks, 1, fan_out)
        layers.append((start.repeat(len(weights), 1, 1), bias))
    parameters = [tensor for layer in layers for tensor in layer]
    averages = [tensor.clone() for tensor in parameters]
    adam = _AdamW(parameters)
    shares = weights.repeat_interleave(seeds, dim=0)
    groups = [torch.arange(len(x))]
    matching = None
    if domain is not None:
        groups = [torch.nonzero(domain == own)[:, 0] for own in range(int(domain.max()) + 1)]
        used = torch.stack([weights[:, rows].amax(dim=1) > 0 for rows in groups], dim=1)
        matching = MatchedProblems(used, seeds, measure)
    size = max(min(BATCH, len(x)) // len(groups), 1)
    batches = zip(*(_draws(rows, size, generator) for rows in groups), strict=True)
    for step in range(1, max(stops) + 1):
        batch = torch.cat(next(batches))
        inputs, logits = _activations(layers, x[batch])
        hidden = inputs[-1].requires_grad_(matching is not None)
        logits.requires_grad_()
        labels = y[batch].expand(networks, *y[batch].shape)
        risks = measure.risk(logits, labels)
        share = shares[:, batch]
        scale = share.sum(dim=1, keepdim=True).clamp(min=1)
        risks = (risks * share / scale).sum(dim=1)
        total = risks.sum()
        if matching is not None:
            means = risks.view(-1, seeds).mean(dim=1)
            total = total + matching(hidden, logits, y[batch], means)
        leaves = [logits] if matching is None else [logits, hidden]
        gradients = _gradients(layers, inputs, *torch.autograd.grad(total, leaves))
        adam.step(gradients, RATE * min(1.0, step / WARMUP))
        for average, parameter in zip(averages, parameters, strict=True):
            average.lerp_(parameter, (ETA + 1) / (step + ETA))
        if step in stops:
            copies = [average.clone() for average in averages]
            yield list(zip(copies[::2], copies[1::2], strict=True))


class _AdamW:
    """AdamW.  torch's own imports its compiler, which takes longer than training such networks."""

    def __init__(self, parameters: list[Tensor]) -> None:
        self.parameters = parameters
        self.means = [torch.zeros_like(parameter) for parameter in parameters]
        self.squares = [torch.zeros_like(parameter) for parameter in parameters]
        self.steps = 0

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor], rate: float) -> None:
        """Take one step at this learning rate."""
        self.steps += 1
        first, second = (1 - beta**self.steps for beta in BETAS)
        state = zip(self.parameters, gradients, self.means, self.squares, strict=True)
        for parameter, gradient, mean, square in state:
            mean.lerp_(gradient, 1 - BETAS[0])
            square.lerp_(gradient.square(), 1 - BETAS[1])
            size = (square / second).sqrt_().add_(1e-8)
            parameter.mul_(1 - rate * DECAY).addcdiv_(mean, size, value=-rate / first)


def _draws(rows: Tensor, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield ``size`` of the rows again and again, in random order; fewer rows are repeated."""
    order = rows[:0]
    while True:
        if len(order) < size:
            passes = -(-size // len(rows))
            order = torch.cat(
                [rows[torch.randperm(len(rows), generator=generator)] for _ in range(passes)]
            )
        yield order[:size]
        order = order[size:]


def _logits(layers: Layers, x: Tensor) -> Tensor:
    """Return the outputs [networks, n, classes] of all networks for x [n, d]."""
    return _activations(layers, x)[1]


@torch.no_grad()
def _activations(layers: Layers, x: Tensor) -> tuple[list[Tensor], Tensor]:
    """Return what each layer is given [networks, n, ·], and the outputs [networks, n, classes]."""
    inputs = [x.expand(len(layers[0][0]), -1, -1)]
    for weight, bias in layers[:-1]:
        inputs.append(torch.baddbmm(bias, inputs[-1], weight).relu_())
    weight, bias = layers[-1]
    return inputs, torch.baddbmm(bias, inputs[-1], weight)


@torch.no_grad()
def _gradients(
    layers: Layers, inputs: Sequence[Tensor], slope: Tensor, to_hidden: Tensor | None = None
) -> list[Tensor]:
    """Return the gradients of weights and biases, in the order of the layers.

    ``slope`` is the derivative by the outputs, and ``to_hidden`` what comes to that by the input
    of the last layer beside.
    """
    found: list[Tensor] = []
    for place in reversed(range(len(layers))):
        found = [torch.bmm(inputs[place].mT, slope), slope.sum(dim=1, keepdim=True), *found]
        if place:
            slope = torch.bmm(slope, layers[place][0].mT)
            if to_hidden is not None:
                slope, to_hidden = slope.add_(to_hidden), None
            slope.mul_(inputs[place] > 0)
    return found


@torch.no_grad()
def _predicted(layers: Layers, rows: np.ndarray, seeds: int, loss: str) -> np.ndarray:
    """Return probabilities [problems, n, classes] or numbers [problems, n, k], means over seeds."""
    found = _logits(layers, torch.from_numpy(rows).float())
    if loss == CROSS_ENTROPY:
        found = found.softmax(dim=2)
    mean: np.ndarray = found.view(-1, seeds, *found.shape[1:]).mean(dim=1).double().numpy()
    return mean


def _voting(layers: Layers, classes: int) -> Any:
    """Return the networks as scikit-learn's: stored, loaded and exported as any of its models."""
    from sklearn.ensemble import VotingClassifier  # type: ignore[import-untyped]
    from sklearn.neural_network import MLPClassifier  # type: ignore[import-untyped]
    from sklearn.preprocessing import LabelBinarizer, LabelEncoder  # type: ignore[import-untyped]

    labels = np.arange(classes)
    width = layers[0][0].shape[2]
    members = []
    for place in range(len(layers[0][0])):
        weights = [weight[place].double().numpy() for weight, _ in layers]
        biases = [bias[place, 0].double().numpy() for _, bias in layers]
        if classes == 2:  # scikit-learn has one logit: that of the second class
            weights[-1] = weights[-1][:, 1:] - weights[-1][:, :1]
            biases[-1] = biases[-1][1:] - biases[-1][:1]
        member = MLPClassifier((width,) * (len(layers) - 1))
        member.coefs_, member.intercepts_ = weights, biases
        member.n_layers_, member.n_features_in_ = len(layers) + 1, len(weights[0])
        member.n_outputs_ = weights[-1].shape[1]
        member.out_activation_ = "logistic" if classes == 2 else "softmax"
        member.classes_ = labels
        member._label_binarizer = LabelBinarizer().fit(labels)
        members.append(member)
    names = [f"seed {place}" for place in range(len(members))]
    voting = VotingClassifier(list(zip(names, members, strict=True)), voting="soft")
    voting.estimators_, voting.classes_ = members, labels
    voting.le_ = LabelEncoder().fit(labels)
    return voting


def _numbers(layers: Layers) -> Any:
    """Return networks of numbers as scikit-learn's, whose votes are on one target each."""
    *hidden, (weight, bias) = layers
    targets = range(weight.shape[2])
    made = [
        _voting_on_numbers([*hidden, (weight[:, :, k : k + 1], bias[:, :, k : k + 1])])
        for k in targets
    ]
    return made[0] if len(made) == 1 else side_by_side(made)


def _voting_on_numbers(layers: Layers) -> Any:
    """Return networks of one number as scikit-learn's."""
    from sklearn.ensemble import VotingRegressor
    from sklearn.neural_network import MLPRegressor

    members = []
    for place in range(len(layers[0][0])):
        member = MLPRegressor((layers[0][0].shape[2],) * (len(layers) - 1))
        member.coefs_ = [weight[place].double().numpy() for weight, _ in layers]
        member.intercepts_ = [bias[place, 0].double().numpy() for _, bias in layers]
        member.n_layers_, member.n_features_in_ = len(layers) + 1, len(member.coefs_[0])
        member.n_outputs_, member.out_activation_ = 1, "identity"
        members.append(member)
    names = [f"seed {place}" for place in range(len(members))]
    voting = VotingRegressor(list(zip(names, members, strict=True)))
    voting.estimators_ = members
    return voting
