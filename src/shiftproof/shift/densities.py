"""Predict a target by Bayes' rule, with one density for each pair of group and target value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular  # type: ignore[import-untyped]
from scipy.special import logsumexp, ndtr  # type: ignore[import-untyped]

from shiftproof.information.sample import Floats, Ints

# The most pairs of group and target value for which densities are fitted.
MOST_CELLS = 100
# The number of equally filled bins of a column's histogram.
BINS = 16


@dataclass(frozen=True, eq=False)
class Task:
    """A target with `classes` values for n weighted rows; `group` may be known to a classifier."""

    target: Ints
    classes: int
    weights: Floats
    group: Ints
    groups: int

    @property
    def prior(self) -> Floats:
        """The weighted shares of the target values."""
        shares = np.bincount(self.target, self.weights, minlength=self.classes)
        return np.asarray(np.maximum(shares / shares.sum(), 1e-12))


def gaussian(z: Floats, task: Task, train: Ints, where: Ints) -> tuple[Floats, Floats]:
    """Return log q(t|x) and log q(t|x,g) from one Gaussian for each pair of group and value.

    Each covariance averages that of the pair's rows and the pooled one, which counts as k rows: the
    Bayes estimate for a prior worth k rows.
    """
    prior = np.log(task.prior)
    shape = (len(where), task.groups, task.classes)
    flat = np.broadcast_to(prior, shape)
    if task.groups * task.classes > MOST_CELLS:
        return flat[:, 0], flat
    cell = task.group[train] * task.classes + task.target[train]
    x, weights = z[train], task.weights[train]
    sizes = np.bincount(cell, minlength=task.groups * task.classes)
    seen = np.flatnonzero(sizes > 1)
    k = x.shape[1]
    centred = np.empty_like(x)
    means = {}
    for c in seen:
        own = cell == c
        means[c] = x[own].mean(axis=0)
        centred[own] = x[own] - means[c]
    kept = np.isin(cell, seen)
    common = centred[kept].T @ centred[kept] / max(kept.sum() - len(seen), 1)
    common[np.diag_indices(k)] += 1e-3
    logs = np.full((len(where), task.groups * task.classes), -np.inf)
    there = z[where]
    for c in seen:
        own = centred[cell == c]
        covariance = (own.T @ own + k * common) / (len(own) + k)
        root = np.linalg.cholesky(covariance)
        white = solve_triangular(root, (there - means[c]).T, lower=True, check_finite=False)
        log_weight = np.log(weights[cell == c].sum())
        logs[:, c] = log_weight - (white**2).sum(axis=0) / 2 - np.log(np.diag(root)).sum()
    logs = logs.reshape(shape)
    all_groups = logsumexp(logs, axis=1)
    return _sure(all_groups, prior, len(train)), _sure(logs, prior, len(train))


def _sure(logs: Floats, prior: Floats, rows: int) -> Floats:
    """Return normalised log probabilities, mixed with the prior with the weight of one row."""
    top = logs.max(axis=-1, keepdims=True)
    known = np.isfinite(top)
    logs = np.where(known, logs - np.where(known, top, 0), prior)
    q = np.exp(logs - logsumexp(logs, axis=-1, keepdims=True))
    return np.asarray(np.log((rows * q + np.exp(prior)) / (rows + 1)))


def marginals(z: Floats, task: Task, train: Ints, where: Ints) -> tuple[Floats, Floats]:
    """Return log q(t|x) and log q(t|x,g) from histograms of the columns, assumed independent.

    z [n, k] are normal scores.  Each histogram is smoothed by `BINS` rows, distributed over the
    bins as all rows are.
    """
    prior = np.log(task.prior)
    shape = (len(where), task.groups, task.classes)
    flat = np.broadcast_to(prior, shape)
    if task.groups * task.classes > MOST_CELLS:
        return flat[:, 0], flat
    bins = np.minimum((BINS * ndtr(z)).astype(np.intp), BINS - 1) + BINS * np.arange(z.shape[1])
    cell = task.group[train] * task.classes + task.target[train]
    width = BINS * z.shape[1]
    every = np.bincount(bins[train].ravel(), minlength=width) / len(train)
    logs = np.full((len(where), task.groups * task.classes), -np.inf)
    for c in np.unique(cell):
        own = train[cell == c]
        counts = np.bincount(bins[own].ravel(), minlength=width)
        shares = np.log((counts + BINS * every + 1e-9) / (len(own) + BINS))
        logs[:, c] = np.log(task.weights[own].sum()) + shares[bins[where]].sum(axis=1)
    logs = logs.reshape(shape)
    return _sure(logsumexp(logs, axis=1), prior, len(train)), _sure(logs, prior, len(train))
