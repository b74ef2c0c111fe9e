"""Test on held-out samples whether a model's outputs mean the same in every domain.

Let z [n, c] be logits of samples that the model was not trained on, y their labels, d their domains
and h = log softmax(z).  Weights w give every domain the same shares π of the classes.  With them,
one calibration is fitted to all domains,

    q_k ∝ exp(a_k + s h_k),   e = onehot(y) − q,   u = h_y − Σ_k q_k h_k.

u and e are the gradients of the log likelihood with respect to the slope s and the intercepts a.
u is also the gradient of the risk with respect to the scale of the head, as in IRM: should the
model be more confident, or less?  A model that uses a feature whose meaning changes is
overconfident in domains where the feature is weak, so its mean u differs between domains.  Two
parts are removed from u,

    t = u − γ·e − (the mean of u − γ·e in the sample's class),

with γ the regression of u on e, so that to first order t does not depend on the intercepts.  Then

    M_d = Σ_k π_k mean_dk(t),   v_d = Σ_k π_k² var_dk(t) / n_dk,   δ̄ = Σ M_d/v_d / Σ 1/v_d,
    Q = Σ_d (M_d − δ̄)² / v_d

compares m domains, and Q / (m − 1) has approximately an F distribution (Welch, 1951).

The null hypothesis is that domains differ only in their class shares: p(z | y, d) = p(z | y).
Then domain labels can be permuted within each class.  This does not change π, a, s, γ and t, so the
share of permutations with an F at least as large is an exact p-value, for any number of samples and
any shares.  Because Q is studentised, the test is also valid for large samples if p(x) shifts and q
calibrates the model (Chung and Romano, 2013).

The samples must be held out: the model has fitted its finite training sample, so on training
samples identical domains would look different.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax  # type: ignore[import-untyped]
from scipy.stats import f as f_distribution, norm as normal  # type: ignore[import-untyped]
from torch import Tensor

from shiftproof.statistics.recalibration import COARSE, recalibrate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TINY = 1e-12
# Entries per block of permutations, to limit memory.
ENTRIES = 1 << 22


class HeldOut(NamedTuple):
    """Logits [n, c], labels [n] and domains [n], numbered from 0, of held-out samples."""

    logits: Floats
    labels: Ints
    domains: Ints

    @classmethod
    def of(cls, outputs: Sequence[tuple[Tensor, Tensor]]) -> HeldOut:
        """Join the logits [nᵢ, c], or one logit [nᵢ, 1], and the labels of each domain."""
        logits, labels = (torch.cat([pair[i] for pair in outputs]) for i in range(2))
        if logits.shape[1] == 1:
            logits = torch.cat([torch.zeros_like(logits), logits], dim=1)
        domains = np.repeat(np.arange(len(outputs)), [len(pair[1]) for pair in outputs])
        return cls(logits.double().numpy(), labels.numpy(), domains)

    @property
    def classes(self) -> int:
        """The number of classes."""
        return int(self.logits.shape[1])


class Calibrated(NamedTuple):
    """Held-out samples after calibration: t [n], the risk of q, and the risk H(π) of a guess.

    Both risks weight every class by its share π in every domain.
    """

    t: Floats
    risk: float
    guess: float


def calibrated(held_out: HeldOut) -> Calibrated:
    """Fit q and return t."""
    logits, labels, domains = held_out
    n, c = logits.shape
    rows = np.arange(n)
    count = np.bincount(domains * c + labels, minlength=(domains.max() + 1) * c).reshape(-1, c)
    share = np.bincount(labels, minlength=c) / n
    # If a domain lacks a class, its other classes keep their proportions in π.
    weight = (share[labels] / count[domains, labels]) * count.sum(axis=1)[domains]
    weight *= n / weight.sum()
    h = log_softmax(logits.astype(np.float64), axis=1)
    h -= h.mean(axis=1, keepdims=True)
    h /= max(math.sqrt((h**2).mean()), TINY)  # a scale at which the prior below is weak
    one_hot = np.eye(c)[labels]

    # The standard normal prior gives a solution even for outputs that separate the classes.
    fit = recalibrate(h, labels, weights=weight / n, penalty=1 / n, precision=COARSE)
    log = log_softmax(fit.slope * h + fit.intercepts, axis=1)
    q = np.exp(log)
    e = one_hot - q
    centred = h - (q * h).sum(axis=1, keepdims=True)
    weighted = weight[:, None] * q
    # The information matrix of the intercepts has rank c − 1: a common constant has no effect.
    by_intercepts = np.diag(weighted.sum(axis=0)) - weighted.T @ q
    gamma = np.linalg.lstsq(by_intercepts, (weighted * centred).sum(axis=0), rcond=1e-10)[0]
    t = (one_hot * centred).sum(axis=1) - e @ gamma
    mean = np.bincount(labels, t, c) / np.maximum(np.bincount(labels, minlength=c), 1)
    present = share[share > 0]
    return Calibrated(
        t - mean[labels],
        float(-(weight @ log[rows, labels]) / n),
        float(-(present @ np.log(present))),
    )


def welch(t: Floats, labels: Ints, domains: Ints, classes: int) -> tuple[Floats, Floats]:
    """Return Welch's F of t [n] for each row of domains [draws, n], and its p-value.

    A class with a single sample in a domain gives no variance, so it is ignored in that domain.
    """
    draws, m = len(domains), int(domains.max()) + 1
    cell = (domains * classes + labels) + (m * classes) * np.arange(draws)[:, None]

    def sums(values: Floats | None) -> Floats:
        whole = None if values is None else np.broadcast_to(values, cell.shape).ravel()
        found = np.bincount(cell.ravel(), whole, draws * m * classes)
        return found.reshape(draws, m, classes).astype(np.float64)

    count, first, second = sums(None), sums(t), sums(t**2)
    share = np.bincount(labels, minlength=classes) / len(labels)
    known = count > 1
    size = np.where(known, count, 2)
    mean = np.where(known, first / size, 0)
    variance = np.where(known, (second - first * mean) / (size - 1), 0).clip(min=0)
    v = (share**2 * variance / size).sum(axis=2)
    tells = v > TINY * v.max(axis=1, keepdims=True, initial=TINY)
    weight = np.where(tells, 1 / np.where(tells, v, 1), 0)
    domain_mean = (share * mean).sum(axis=2)
    whole = np.maximum(weight.sum(axis=1, keepdims=True), TINY)
    part = weight / whole
    q = (weight * (domain_mean - (part * domain_mean).sum(axis=1, keepdims=True)) ** 2).sum(axis=1)
    k = np.maximum(tells.sum(axis=1), 1)
    freedom = np.maximum((np.where(known, count - 1, 0)).sum(axis=2), 1)
    lack = np.where(tells, (1 - part) ** 2 / freedom, 0).sum(axis=1)
    several = k > 1
    ratio = q / np.maximum(k - 1, 1) / (1 + 2 * (k - 2) / np.maximum(k**2 - 1, 1) * lack)
    ratio = np.where(several, ratio, 0)
    second_freedom = (k**2 - 1) / np.maximum(3 * lack, TINY)
    p = np.where(several, f_distribution.sf(ratio, np.maximum(k - 1, 1), second_freedom), 1.0)
    return ratio, p


def welch_p(t: Floats, held_out: HeldOut) -> float:
    """Return the asymptotic p-value of Welch's F."""
    return float(welch(t, held_out.labels, held_out.domains[None], held_out.classes)[1][0])


def permutation_p(t: Floats, held_out: HeldOut, permutations: int, seed: int) -> float:
    """Return the exact p-value of Welch's F, by permuting domain labels within each class."""
    labels, domains, classes = held_out.labels, held_out.domains, held_out.classes
    rng = np.random.default_rng(seed)
    observed = welch(t, labels, domains[None], classes)[0][0]
    order = np.argsort(labels, kind="stable")
    t, labels, domains = t[order], labels[order], domains[order]
    bounds = np.searchsorted(labels, np.arange(classes + 1))
    at_least = 0
    size = max(1, ENTRIES // len(t))
    for start in range(0, permutations, size):
        drawn = np.tile(domains, (min(size, permutations - start), 1))
        for low, high in pairwise(bounds):
            drawn[:, low:high] = rng.permuted(drawn[:, low:high], axis=1)
        found = welch(t, labels, drawn, classes)[0]
        # The tolerance covers rounding, which depends on the order of the samples.
        at_least += int((found >= observed * (1 - 1e-9)).sum())
    return (1 + at_least) / (1 + permutations)


def informed(held_out: HeldOut, level: float) -> bool:
    """Whether predictions are better than chance in every domain, each tested at `level`.

    With r_k the recall of class k and c classes that occur, the mean of r_k is 1/c in expectation
    for any predictions that do not depend on the class.  Its variance is at most Σ_k ¼ / n_k / c².
    """
    logits, labels, domains = held_out
    quantile = float(normal.isf(level))
    for domain in range(int(domains.max()) + 1):
        own = domains == domain
        count = np.bincount(labels[own], minlength=held_out.classes)
        right = np.bincount(labels[own], logits[own].argmax(axis=1) == labels[own], len(count))
        there = count > 0
        if there.sum() < 2:
            continue  # a domain with one class is uninformative
        shares = right[there] / count[there]
        spread = math.sqrt((0.25 / count[there]).sum()) / len(shares)
        if shares.mean() - 1 / len(shares) <= quantile * spread:
            return False
    return True
