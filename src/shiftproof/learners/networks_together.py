"""Many small networks trained together, evaluated after several numbers of steps.

A network has two hidden ReLU layers.  All networks of one call, for every held-out fold and every
seed, share their batches: a layer is one batched matrix product, and a fold is held out by giving
its rows weight 0.  The gradients of the layers are computed by hand, which saves copies as large as
a batch times all networks.  The optimiser is AdamW (Loshchilov and Hutter, 2019) with a short
warm-up and then a constant learning rate.  Predictions use weights averaged over the steps (Shamir
and Zhang, 2013),

    θ̄_t = (1 − (η+1)/(t+η)) θ̄_{t−1} + (η+1)/(t+η) θ_t,   η = 3,

which replace a decaying learning rate and can be read at any step.

Networks can also match their domains as IDM does (`learners.matched`).  Then every batch holds
the same number of rows of each domain.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from shiftproof.core.types import CROSS_ENTROPY
from shiftproof.learners.matched import MatchedProblems
from shiftproof.models.risk import loss_named

BATCH = 256
# Defaults of Adam (learning rate, betas) and AdamW (weight decay).
RATE, DECAY, BETAS = 1e-3, 1e-2, (0.9, 0.999)
WARMUP = 20
ETA = 3

# Weights and biases of the three layers, stacked over all networks.
Layers = list[tuple[Tensor, Tensor]]


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
    """Train ``seeds`` networks for each row of ``weights`` [problems, n]; yield averaged weights.

    x [n, d] and y [n] or [n, targets] are the samples; ``sizes`` are the layer sizes, from d to the
    outputs.  With ``domain`` [n], 0, 1, …, domains are matched; a problem must use all rows of a
    domain or none.  After each number of steps in ``stops``, which must increase, yield for each
    layer the averaged weights [networks, in, out] and biases [networks, 1, out]; networks of one
    problem are adjacent.
    """
    generator = torch.Generator().manual_seed(seed)
    measure = loss_named(loss)
    networks = len(weights) * seeds
    layers: Layers = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        # Problems start from the same weights, so they differ only in their samples.
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
    """AdamW; torch's version imports its compiler, which takes longer than the training."""

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
    """Yield batches of ``size`` rows in random order, forever; too few rows are repeated."""
    order = rows[:0]
    while True:
        if len(order) < size:
            passes = -(-size // len(rows))
            order = torch.cat(
                [rows[torch.randperm(len(rows), generator=generator)] for _ in range(passes)]
            )
        yield order[:size]
        order = order[size:]


def logits_of(layers: Layers, x: Tensor) -> Tensor:
    """Return the outputs [networks, n, classes] of all networks for x [n, d]."""
    return _activations(layers, x)[1]


@torch.no_grad()
def _activations(layers: Layers, x: Tensor) -> tuple[list[Tensor], Tensor]:
    """Return the inputs of each layer [networks, n, ·] and the outputs [networks, n, classes]."""
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

    ``slope`` is the gradient with respect to the outputs.  ``to_hidden`` is added to the gradient
    with respect to the input of the last layer.
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
def mean_predictions(layers: Layers, rows: np.ndarray, seeds: int, loss: str) -> np.ndarray:
    """Return the mean over seeds of probabilities [problems, n, classes] or numbers."""
    found = logits_of(layers, torch.from_numpy(rows).float())
    if loss == CROSS_ENTROPY:
        found = found.softmax(dim=2)
    mean: np.ndarray = found.view(-1, seeds, *found.shape[1:]).mean(dim=1).double().numpy()
    return mean
