"""The classifiers whose predictions `posteriors` combines, for a domain or a label.

| name | sees |
|---|---|
| linear | the features: differences of means |
| squares | their squares and products, the norm, squared projections: spreads and correlations |
| Gaussian | a mean and a covariance for each domain and class: the exact rule for Gaussians |
| trees | steps and interactions, from `GROWN_FROM` rows |
| network | the rest (`network`) |

All but the first see normal scores, so that heavy tails hide nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtr  # type: ignore[import-untyped]
from sklearn.ensemble import HistGradientBoostingClassifier  # type: ignore[import-untyped]
from sklearn.exceptions import ConvergenceWarning  # type: ignore[import-untyped]
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

from shiftproof.information.experts import COMPONENTS, principal_components
from shiftproof.information.features import normal_scores, second_order
from shiftproof.information.sample import Floats, Ints

GROWN_FROM = 2_000
# Trees see so many columns, and Gaussians so many: the leading components of more.
GROWN, GAUSSIAN = 32, 64
# Trees see so many quantiles of a column.
LEVELS = 64
# The most pairs of domain and class that Gaussians are fitted to.
MOST_CELLS = 100
# The variance of the log odds that a logistic regression expects before it has seen data.
ODDS = 4.0


@dataclass(frozen=True, eq=False)
class Views:
    """What the classifiers see of features [n, k]; `columns` is k after leading components."""

    raw: Floats
    scores: Floats
    squares: Floats
    gaussian: Floats
    grown: Floats

    @classmethod
    def of(cls, x: Floats) -> Views:
        """Return the views of standardised features x [n, k]."""
        if x.shape[1] == 0:
            x = np.zeros((len(x), 1))
        if x.shape[1] > COMPONENTS:
            x = principal_components(x, COMPONENTS, whiten=False)
            x = x / np.sqrt((x**2).mean())
        scores = normal_scores(x)
        return cls(
            np.asarray(x, dtype=np.float64),
            scores,
            second_order(scores),
            scores[:, :GAUSSIAN],
            # Few distinct values: scikit-learn is slow at finding bins for weighted rows.
            np.floor(LEVELS * ndtr(scores[:, :GROWN])),
        )


@dataclass(frozen=True, eq=False)
class Task:
    """A target with `classes` values for n rows with weights; `group` is what may be known."""

    target: Ints
    classes: int
    weights: Floats
    group: Ints
    groups: int

    @property
    def prior(self) -> Floats:
        """Return the weighted shares of the target."""
        shares = np.bincount(self.target, self.weights, minlength=self.classes)
        return np.asarray(np.maximum(shares / shares.sum(), 1e-12))


# Fit on the rows `train`, return log q at the rows `where`: [·, classes], or by group
# [·, groups, classes].
Predictor = Callable[[Task, Ints, Ints], Floats]


def pooled(views: Views) -> list[Predictor]:
    """Return the classifiers that ignore the group."""
    found = [_logistic(views.raw), _logistic(views.squares)]
    found.append(lambda task, train, where: gaussian(views.gaussian, task, train, where)[0])
    if len(views.raw) >= GROWN_FROM:
        found.append(_trees(views.grown))
    return found


def by_group(views: Views) -> list[Predictor]:
    """Return the classifiers that know the group of a row, asked for every group."""
    found = [_each(_logistic(views.raw)), _each(_logistic(views.squares)), _shares]
    found.append(lambda task, train, where: gaussian(views.gaussian, task, train, where)[1])
    if len(views.raw) >= GROWN_FROM:
        found.append(_trees_by_group(views.grown))
    return found


def gaussian(z: Floats, task: Task, train: Ints, where: Ints) -> tuple[Floats, Floats]:
    """Return log q(t|x) and log q(t|x,g) by one Gaussian for each pair of group and value.

    A covariance is that of its pair's rows and of all pairs together, the latter counted as k
    rows: Bayes' estimate for a prior worth k rows.
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
        white = np.linalg.solve(root, (there - means[c]).T)
        log_weight = np.log(weights[cell == c].sum())
        logs[:, c] = log_weight - (white**2).sum(axis=0) / 2 - np.log(np.diag(root)).sum()
    logs = logs.reshape(shape)
    all_groups = logsumexp(logs, axis=1)
    return _sure(all_groups, prior, len(train)), _sure(logs, prior, len(train))


def _sure(logs: Floats, prior: Floats, rows: int) -> Floats:
    """Return normalised log probabilities, mixed with the prior at the weight of one row."""
    top = logs.max(axis=-1, keepdims=True)
    known = np.isfinite(top)
    logs = np.where(known, logs - np.where(known, top, 0), prior)
    q = np.exp(logs - logsumexp(logs, axis=-1, keepdims=True))
    return np.asarray(np.log((rows * q + np.exp(prior)) / (rows + 1)))


def _fitted(build: Callable[[], Any], x: Floats, task: Task, train: Ints, there: Floats) -> Floats:
    known, codes = np.unique(task.target[train], return_inverse=True)
    q = np.zeros((len(there), task.classes))
    if len(known) == 1:
        q[:, known] = 1
    else:
        model = build()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
            scale = len(train) / task.weights[train].sum()
            model.fit(x, codes, sample_weight=task.weights[train] * scale)
        q[:, known] = model.predict_proba(there)
    prior = task.prior
    return np.asarray(np.log((len(train) * q + prior) / (len(train) + 1)))


def _logistic(x: Floats) -> Predictor:
    def build() -> LogisticRegression:
        return LogisticRegression(C=ODDS / x.shape[1], max_iter=60, tol=1e-3)

    def predict(task: Task, train: Ints, where: Ints) -> Floats:
        return _fitted(build, x[train], task, train, x[where])

    return predict


def _each(one: Predictor) -> Predictor:
    def predict(task: Task, train: Ints, where: Ints) -> Floats:
        parts = [train[task.group[train] == g] for g in range(task.groups)]
        prior = np.broadcast_to(np.log(task.prior), (len(where), task.classes))
        return np.stack([one(task, p, where) if len(p) else prior for p in parts], axis=1)

    return predict


def _shares(task: Task, train: Ints, where: Ints) -> Floats:
    counts = np.zeros((task.groups, task.classes))
    np.add.at(counts, (task.group[train], task.target[train]), 1)
    shares = (counts + task.prior) / (counts.sum(axis=1, keepdims=True) + 1)
    return np.broadcast_to(np.log(shares), (len(where), task.groups, task.classes))


def _grown() -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(
        max_iter=40,
        learning_rate=0.15,
        max_leaf_nodes=8,
        l2_regularization=1.0,
        early_stopping=False,
        random_state=0,
    )


def _trees(x: Floats) -> Predictor:
    def predict(task: Task, train: Ints, where: Ints) -> Floats:
        return _fitted(_grown, x[train], task, train, x[where])

    return predict


def _trees_by_group(x: Floats) -> Predictor:
    """Trees that see the group as one more column for each."""

    def predict(task: Task, train: Ints, where: Ints) -> Floats:
        own = np.eye(task.groups)
        seen = np.concatenate([x[train], own[task.group[train]]], axis=1)
        asked = np.concatenate(
            [
                np.repeat(x[where], task.groups, axis=0),
                np.tile(own, (len(where), 1)),
            ],
            axis=1,
        )
        found = _fitted(_grown, seen, task, train, asked)
        return found.reshape(len(where), task.groups, task.classes)

    return predict
