"""The classifiers whose predictions `posteriors` combines, for a domain or a label.

| name | sees |
|---|---|
| linear | the features: differences of means |
| squares | their squares and products, the norm, squared projections: spreads and correlations |
| Gaussian | a mean and a covariance for each domain and class: the exact rule for Gaussians |
| marginals | the histogram of each column by domain and class: spreads, tails and gaps |
| trees | steps and interactions, from `GROWN_FROM` rows |
| network | the rest (`network`) |

Densities, trees and the network see normal scores, so that heavy tails hide nothing.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtr  # type: ignore[import-untyped]
from sklearn.ensemble import HistGradientBoostingClassifier  # type: ignore[import-untyped]
from sklearn.exceptions import ConvergenceWarning  # type: ignore[import-untyped]
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

from shiftproof.information.experts import (
    COMPONENTS,
    normal_scores,
    principal_components,
    second_order,
    small_trees,
)
from shiftproof.information.sample import Floats, Ints, Sample
from shiftproof.shift.densities import Task, gaussian, marginals

GROWN_FROM = 2_000
# The most columns that trees see, and that densities see; of more, the leading components.
GROWN, LEADING = 32, 64
# Values are clipped at this many standard deviations for squares and products.
FARTHEST = 4.0
# The number of quantiles of a column that trees see.
LEVELS = 64
# The prior variance of the log odds in a logistic regression.
ODDS = 4.0


@dataclass(frozen=True, eq=False)
class Views:
    """Transformed features [n, k] as the classifiers see them."""

    raw: Floats
    scores: Floats
    squares: Floats
    leading: Floats
    grown: Floats

    @classmethod
    def of(cls, x: Floats) -> Views:
        """Return the views of standardised features x [n, k]."""
        if x.shape[1] == 0:
            x = np.zeros((len(x), 1))
        x = _leading(x)
        scores = normal_scores(x)
        return cls(
            np.asarray(x, dtype=np.float64),
            scores,
            # Not of the scores, which stretch the noise within two clusters over the whole line.
            second_order(np.clip(x, -FARTHEST, FARTHEST)),
            scores[:, :LEADING],
            # Few distinct values, because scikit-learn is slow at binning weighted rows.
            np.floor(LEVELS * ndtr(scores[:, :GROWN])),
        )


def leading_columns(sample: Sample) -> Sample:
    """Return the samples with the columns that `Views` uses; all if there are few."""
    return replace(sample, x=_leading(sample.x))


def _leading(x: Floats) -> Floats:
    """Return the leading components of many columns, scaled together."""
    if x.shape[1] <= COMPONENTS:
        return x
    x = principal_components(x, COMPONENTS, whiten=False)
    return np.asarray(x / np.sqrt((x**2).mean()))


# Fit on the rows `train`, return log q at the rows `where`: [·, classes], or by group
# [·, groups, classes].
Predictor = Callable[[Task, Ints, Ints], Floats]


def pooled(views: Views) -> list[Predictor]:
    """Return the classifiers that ignore the group."""
    found = [_logistic(views.raw), _logistic(views.squares)]
    found.append(lambda task, train, where: gaussian(views.leading, task, train, where)[0])
    found.append(lambda task, train, where: marginals(views.leading, task, train, where)[0])
    if len(views.raw) >= GROWN_FROM:
        found.append(_trees(views.grown))
    return found


def by_group(views: Views) -> list[Predictor]:
    """Return the classifiers that know the group of a row, evaluated for every group."""
    found = [_each(_logistic(views.raw)), _each(_logistic(views.squares)), _shares]
    found.append(lambda task, train, where: gaussian(views.leading, task, train, where)[1])
    found.append(lambda task, train, where: marginals(views.leading, task, train, where)[1])
    if len(views.raw) >= GROWN_FROM:
        found.append(_trees_by_group(views.grown))
    return found


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Ignore warnings about fits that stop early, or about many classes with few rows.

    Used once around all fits, because all threads share the warning filters.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        yield


def _fitted(build: Callable[[], Any], x: Floats, task: Task, train: Ints, there: Floats) -> Floats:
    known, codes = np.unique(task.target[train], return_inverse=True)
    q = np.zeros((len(there), task.classes))
    if len(known) == 1:
        q[:, known] = 1
    else:
        model = build()
        scale = len(train) / task.weights[train].sum()
        # Products of small float32 matrices may raise the invalid flag for unused parts of
        # registers (seen with finite factors and a finite product).
        with np.errstate(invalid="ignore"):
            model.fit(x, codes, sample_weight=task.weights[train] * scale)
            q[:, known] = model.predict_proba(there)
    prior = task.prior
    return np.asarray(np.log((len(train) * q + prior) / (len(train) + 1)))


def _logistic(x: Floats) -> Predictor:
    # Half the bytes to read, and precise enough for standardised columns and a tolerance of 1e-3.
    x = x.astype(np.float32)

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


def _few_levels() -> HistGradientBoostingClassifier:
    return small_trees(LEVELS)


def _trees(x: Floats) -> Predictor:
    def predict(task: Task, train: Ints, where: Ints) -> Floats:
        return _fitted(_few_levels, x[train], task, train, x[where])

    return predict


def _trees_by_group(x: Floats) -> Predictor:
    """Return trees that see the group as one-hot columns."""

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
        found = _fitted(_few_levels, seen, task, train, asked)
        return found.reshape(len(where), task.groups, task.classes)

    return predict
