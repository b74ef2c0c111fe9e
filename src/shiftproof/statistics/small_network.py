"""Networks that predict the domain, the label, and the label given the domain, trained jointly.

The body h of a network has two hidden layers.  Each of its three outputs is linear in (h(x), x).
The output for a known domain d adds a linear part Δ_d to the shared one; weight decay keeps Δ_d
small, so that a domain with few rows borrows from the others.

One network per fold is trained, all in the same steps: a step multiplies stacked matrices, which
saves calls for small products.  Every network has its own random draws, so it learns what it would
learn alone.  Gradients are written out by hand: the networks are too small for automatic
differentiation, and importing such a library takes longer than training.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import log_softmax

from shiftproof.core.seeding import seed_hash
from shiftproof.statistics.sample import Floats, Ints, Sample

HIDDEN = 64
DROPOUT = 0.1
SMALLEST_BATCH, LARGEST_BATCH, FEWEST_STEPS = 16, 256, 20
MOST_EPOCHS, PATIENCE = 40, 4
# AdamW (Loshchilov and Hutter, 2019).
RATE, DECAY, BETAS, TINY = 3e-3, 1e-2, (0.9, 0.999), 1e-8
# One in this many rows is held out for early stopping.
JUDGED = 7


class Answers(NamedTuple):
    """Log probabilities: domain [n, D], label [n, C], and label given each domain [n, D, C]."""

    domain: Floats
    label: Floats
    known: Floats


class _Shapes(NamedTuple):
    """The shape of a network; its weights form one vector, so that one update changes all."""

    columns: int
    domains: int
    classes: int

    @property
    def layers(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of both hidden layers, the domain and label heads, and Δ; last rows are biases."""
        wide = HIDDEN + self.columns + 1
        return (
            (self.columns + 1, HIDDEN),
            (HIDDEN + 1, HIDDEN),
            (wide, self.domains + self.classes),
            (self.domains, wide, self.classes),
        )

    def split(self, vectors: Floats) -> list[Floats]:
        """Return vectors [F, ·] as views of the layers: [F, …] each."""
        ends = np.cumsum([np.prod(shape) for shape in self.layers])
        parts = np.split(vectors, ends[:-1], axis=1)
        return [
            part.reshape(len(part), *shape) for part, shape in zip(parts, self.layers, strict=True)
        ]

    def start(self, rng: np.random.Generator) -> Floats:
        """Draw the weights of a network, uniform within ±1/√inputs; Δ starts at 0."""
        drawn = [rng.uniform(-1, 1, shape) / np.sqrt(shape[0] - 1) for shape in self.layers[:-1]]
        zeros = np.zeros(self.layers[-1])
        return np.concatenate([layer.ravel() for layer in (*drawn, zeros)]).astype(np.float32)


class _Stack:
    """F networks and their optimiser: weights, means and mean squares of gradients, [F, ·] each."""

    def __init__(self, shapes: _Shapes, vectors: Floats) -> None:
        self.shapes, self.steps = shapes, 0
        self.state = [vectors, np.zeros_like(vectors), np.zeros_like(vectors)]

    def keep(self, networks: Sequence[int]) -> None:
        """Continue with only the given networks."""
        self.state = [part[networks] for part in self.state]

    def slope(self, x: Floats, d: Ints, y: Ints, weights: Floats, drops: Floats) -> Floats:
        """Return the gradient of the weighted cross entropy of all three outputs: [F, ·].

        The last column of x [F, b, k + 1] is ones; d, y and weights are [F, b], and drops
        [F, 2, b, HIDDEN] are the dropout factors.  The rows of a batch are sorted by d.
        """
        first, second, heads, delta = self.shapes.split(self.state[0])
        h = np.concatenate([np.empty((*x.shape[:2], HIDDEN), np.float32), x], axis=2)
        low = np.ones((*x.shape[:2], HIDDEN + 1), np.float32)
        low[..., :HIDDEN] = np.maximum(x @ first, 0) * drops[:, 0]
        h[..., :HIDDEN] = np.maximum(low @ second, 0) * drops[:, 1]
        domain, label = np.split(h @ heads, [self.shapes.domains], axis=2)
        slope = np.empty_like(self.state[0])
        to_first, to_second, to_heads, to_delta = self.shapes.split(slope)
        back = np.concatenate([_slope(domain, d, weights), _slope(label, y, weights)], axis=2)
        np.matmul(h.swapaxes(1, 2), back, out=to_heads)
        down = back @ heads[:, :HIDDEN].swapaxes(1, 2)
        for f, sorted_domains in enumerate(d):
            edges = np.searchsorted(sorted_domains, np.arange(self.shapes.domains + 1)).tolist()
            for domain_code, (start, end) in enumerate(itertools.pairwise(edges)):
                rows = h[f, start:end]
                # The output given the domain does not train the label head without it.
                known = label[f, start:end] + rows @ delta[f, domain_code]
                wrong = _slope(known, y[f, start:end], weights[f, start:end])
                np.matmul(rows.T, wrong, out=to_delta[f, domain_code])
                down[f, start:end] += wrong @ delta[f, domain_code, :HIDDEN].T
        down *= drops[:, 1] * (h[..., :HIDDEN] > 0)
        np.matmul(low.swapaxes(1, 2), down, out=to_second)
        down = down @ second[:, :HIDDEN].swapaxes(1, 2)
        down *= drops[:, 0] * (low[..., :HIDDEN] > 0)
        np.matmul(x.swapaxes(1, 2), down, out=to_first)
        return slope

    def descend(self, slope: Floats) -> None:
        """Take a step of AdamW."""
        self.steps += 1
        vectors, means, squares = self.state
        bias, spread = (np.float32(1 - beta**self.steps) for beta in BETAS)
        means += np.float32(1 - BETAS[0]) * (slope - means)
        squares += np.float32(1 - BETAS[1]) * (slope * slope - squares)
        size = np.sqrt(squares / spread)
        size += np.float32(TINY)
        vectors *= np.float32(1 - RATE * DECAY)
        vectors -= np.float32(RATE) / bias * means / size

    def logits(self, network: int, x: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the logits of one network for x [n, k + 1]: [n, D], [n, C] and [n, D, C]."""
        layers = self.shapes.split(self.state[0])
        first, second, heads, delta = (layer[network] for layer in layers)
        low = np.maximum(x @ first, 0) @ second[:HIDDEN] + second[HIDDEN]
        h = np.concatenate([np.maximum(low, 0), x], axis=1)
        domain, label = np.split(h @ heads, [self.shapes.domains], axis=1)
        return domain, label, label[:, None] + (h @ delta).swapaxes(0, 1)


def _slope(logits: Floats, target: Ints, weights: Floats) -> Floats:
    """Return the gradient of Σ weights · cross entropy."""
    slope = np.exp(logits - logits.max(axis=-1, keepdims=True))
    slope /= slope.sum(axis=-1, keepdims=True)
    rows = slope.reshape(-1, slope.shape[-1])
    rows[np.arange(len(rows)), target.ravel()] -= 1
    slope *= weights[..., None]
    return np.asarray(slope)


def fit_networks(x: Floats, sample: Sample, fold: Ints, seed: int) -> Answers:
    """Return log probabilities of all rows, from networks that were not trained on their fold.

    Each output comes from the epoch at which it predicts the rows held out for stopping best.
    """
    n, domains, classes = len(x), sample.domains, sample.classes
    inputs = np.ones((n, x.shape[1] + 1), np.float32)
    inputs[:, :-1] = np.clip(x, -6, 6)
    weights = (sample.weights * n).astype(np.float32)
    shapes = _Shapes(x.shape[1], domains, classes)
    runs = [
        _Run(np.flatnonzero(fold != k), np.flatnonzero(fold == k), seed) for k in np.unique(fold)
    ]
    longest = max(len(run.fitted) for run in runs)
    stack = _Stack(shapes, np.stack([shapes.start(run.rng) for run in runs]))
    logits = Answers(
        np.empty((n, domains)), np.empty((n, classes)), np.empty((n, domains, classes))
    )
    targets = (sample.d, sample.y, sample.y)
    for _ in range(MOST_EPOCHS):
        for rows, shares in _batches(runs, longest, sample.d):
            drops = np.stack([run.drops(rows.shape[1]) for run in runs])
            of_rows = (inputs[rows], sample.d[rows], sample.y[rows], weights[rows] * shares)
            stack.descend(stack.slope(*of_rows, drops))
        for network, run in enumerate(runs):
            domain, label, known = stack.logits(network, inputs[run.judge])
            known = known[np.arange(len(run.judge)), sample.d[run.judge]]
            losses = [
                _loss(output, target[run.judge], weights[run.judge])
                for output, target in zip((domain, label, known), targets, strict=True)
            ]
            better = run.judged(losses)
            if any(better):
                outputs = stack.logits(network, inputs[run.where])
                for new, best, improved in zip(outputs, logits, better, strict=True):
                    if improved:
                        best[run.where] = new
        going = [network for network, run in enumerate(runs) if run.waited < PATIENCE]
        if not going:
            break
        if len(going) < len(runs):
            stack.keep(going)
            runs = [runs[network] for network in going]
    return Answers(*(log_softmax(output, axis=-1) for output in logits))


class _Run:
    """The rows and random generator of one network, and the best losses of its outputs."""

    def __init__(self, train: Ints, where: Ints, seed: int) -> None:
        self.rng = np.random.default_rng(seed_hash("network", seed, len(train)))
        order = self.rng.permutation(train)
        self.judge, self.fitted = order[::JUDGED], np.delete(order, np.s_[::JUDGED])
        self.where = where
        self.best, self.waited = [np.inf] * 3, 0

    def drops(self, rows: int) -> Floats:
        """Draw the dropout factors of both layers: [2, rows, HIDDEN]."""
        used = self.rng.random((2, rows, HIDDEN), dtype=np.float32) >= DROPOUT
        return used * np.float32(1 / (1 - DROPOUT))

    def judged(self, losses: Sequence[float]) -> list[bool]:
        """Return which outputs have a new lowest loss."""
        better = [loss < least for loss, least in zip(losses, self.best, strict=True)]
        self.waited = 0 if any(better) else self.waited + 1
        self.best = [min(pair) for pair in zip(losses, self.best, strict=True)]
        return better


def _batches(runs: Sequence[_Run], longest: int, d: Ints) -> Iterator[tuple[Ints, Floats]]:
    """Yield the rows of an epoch, [F, b] sorted by d, and their weights in the mean of a batch.

    Batches are small enough for 20 steps if possible.  Networks with fewer than `longest` rows are
    padded with rows of weight 0.
    """
    size = max(SMALLEST_BATCH, min(LARGEST_BATCH, longest // FEWEST_STEPS))
    rows = np.zeros((len(runs), longest), dtype=np.intp)
    there = np.zeros((len(runs), longest), dtype=np.float32)
    for network, run in enumerate(runs):
        rows[network, : len(run.fitted)] = run.rng.permutation(run.fitted)
        there[network, : len(run.fitted)] = 1
    for start in range(0, longest, size):
        batch, counted = rows[:, start : start + size], there[:, start : start + size]
        order = np.argsort(d[batch], axis=1, kind="stable")
        counted = counted / np.maximum(counted.sum(axis=1, keepdims=True), 1)
        yield np.take_along_axis(batch, order, 1), np.take_along_axis(counted, order, 1)


def _loss(logits: Floats, target: Ints, weights: Floats) -> float:
    right = log_softmax(logits.astype(np.float64), axis=1)[np.arange(len(target)), target]
    return float(-(right * weights).mean())
