"""The models whose predictions `posteriors` combines, for a domain, a class or a number.

The classifiers:

| name | sees |
|---|---|
| linear | the features: differences of means |
| squares | their squares and products, the norm, squared projections: spreads and correlations |
| Gaussian | a mean and a covariance for each domain and class: the exact rule for Gaussians |
| marginals | the histogram of each column by domain and class: spreads, tails and gaps |
| trees | steps and interactions, from `GROWN_FROM` rows |
| network | the rest (`network`) |

Densities, trees and the network see normal scores, so that heavy tails hide nothing.  Gaussian and
marginals use Bayes' rule, with one density for each pair of group and target value.

The regression models for numeric labels:

| name | sees |
|---|---|
| ridge | the features |
| ridge of squares | their squares and products too |
| ridge of splines | a smooth function of each of the first `GROWN` features |
| trees | steps and interactions |

A ridge uses the penalty with the least leave-one-out error on its own training rows.
`stacked` adds the predictions with weights a ≥ 0, fitted by least squares in the other folds.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular  # type: ignore[import-untyped]
from scipy.optimize import nnls  # type: ignore[import-untyped]
from scipy.special import logsumexp, ndtr  # type: ignore[import-untyped]
from sklearn.ensemble import (  # type: ignore[import-untyped]
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.exceptions import ConvergenceWarning  # type: ignore[import-untyped]
from sklearn.linear_model import LogisticRegression, RidgeCV  # type: ignore[import-untyped]
from sklearn.preprocessing import SplineTransformer  # type: ignore[import-untyped]

from shiftproof.information.experts import (
    COMPONENTS,
    normal_scores,
    principal_components,
    second_order,
    small_trees,
)
from shiftproof.information.sample import Floats, Ints, Sample

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
        x = leading(x)
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
    return replace(sample, x=leading(sample.x))


def leading(x: Floats, most: int = COMPONENTS) -> Floats:
    """Return the leading components of more than `most` columns, scaled together."""
    if x.shape[1] <= most:
        return x
    x = principal_components(x, most, whiten=False)
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


def _with_groups(
    x: Floats, group: Ints, groups: int, train: Ints, where: Ints
) -> tuple[Floats, Floats]:
    """Return the rows `train` with their group as one-hot columns, and `where` with each group."""
    hot = np.eye(groups)
    asked = np.concatenate(
        [np.repeat(x[where], groups, axis=0), np.tile(hot, (len(where), 1))], axis=1
    )
    return np.concatenate([x[train], hot[group[train]]], axis=1), asked


def _trees_by_group(x: Floats) -> Predictor:
    """Return trees that see the group as one-hot columns."""

    def predict(task: Task, train: Ints, where: Ints) -> Floats:
        seen, asked = _with_groups(x, task.group, task.groups, train, where)
        found = _fitted(_few_levels, seen, task, train, asked)
        return found.reshape(len(where), task.groups, task.classes)

    return predict


PENALTIES = np.geomspace(1e-2, 1e4, 7)
# Knots of a cubic spline.
KNOTS = 6

# Fit numbers y with weights on the rows `train`, predict the rows `where`: [·].
Regressor = Callable[[Floats, Floats, Ints, Ints], Floats]
# The same for models that know the domain d, evaluated for every domain: [·, domains].
ByDomain = Callable[[Floats, Floats, Ints, Ints, Ints], Floats]


def regressors(views: Views) -> list[Regressor]:
    """Return the models that ignore the domain."""
    seen = (views.raw, views.squares, splines(views.scores[:, :GROWN]))
    return [*map(_ridge, seen), _tree_regressor(views.grown)]


def models_by_domain(views: Views) -> list[ByDomain]:
    """Return the models that know the domain of a row."""
    seen = (views.raw, views.squares, splines(views.scores[:, :GROWN]))
    return [*(_by_domain(_ridge(each)) for each in seen), _trees_by_domain(views.grown)]


def splines(z: Floats) -> Floats:
    """Return cubic B-splines of each column of normal scores z [n, k]."""
    found = SplineTransformer(n_knots=KNOTS, extrapolation="linear").fit_transform(z)
    return np.asarray(found - found.mean(axis=0))


def stacked(panel: Floats, y: Floats, weights: Floats, fold: Ints) -> Floats:
    """Add predictions [c, n] with weights a ≥ 0 that are fitted in the other folds: [n]."""
    found = np.empty(panel.shape[1])
    for k in range(int(fold.max()) + 1):
        rows = np.flatnonzero(fold != k)
        found[fold == k] = mixing(panel[:, rows], y[rows], weights[rows]) @ panel[:, fold == k]
    return found


def mixing(panel: Floats, y: Floats, weights: Floats) -> Floats:
    """Return the weights a ≥ 0 [c] of least squares."""
    root = np.sqrt(weights)
    return np.asarray(nnls((panel * root).T, y * root)[0])


def ridge_errors(x: Floats, y: Floats) -> tuple[RidgeCV, float]:
    """Return a ridge of y [n] on x [n, k], and its mean squared leave-one-out error."""
    model = RidgeCV(alphas=PENALTIES, store_cv_results=True).fit(x, y)
    return model, float(model.cv_results_.mean(axis=0).min())


def _ridge(x: Floats) -> Regressor:
    def predict(y: Floats, weights: Floats, train: Ints, where: Ints) -> Floats:
        scale = len(train) / weights[train].sum()
        model = RidgeCV(alphas=PENALTIES)
        model.fit(x[train], y[train], sample_weight=weights[train] * scale)
        return np.asarray(model.predict(x[where]))

    return predict


def _by_domain(one: Regressor) -> ByDomain:
    def predict(y: Floats, weights: Floats, d: Ints, train: Ints, where: Ints) -> Floats:
        parts = [train[d[train] == domain] for domain in range(int(d.max()) + 1)]
        return np.stack([one(y, weights, part, where) for part in parts], axis=1)

    return predict


def _tree_regressor(x: Floats) -> Regressor:
    def predict(y: Floats, weights: Floats, train: Ints, where: Ints) -> Floats:
        model = small_tree_regressor().fit(
            x[train], y[train], sample_weight=weights[train] * len(y)
        )
        return np.asarray(model.predict(x[where]))

    return predict


def _trees_by_domain(x: Floats) -> ByDomain:
    """Return trees that see the domain as one-hot columns."""

    def predict(y: Floats, weights: Floats, d: Ints, train: Ints, where: Ints) -> Floats:
        domains = int(d.max()) + 1
        seen, asked = _with_groups(x, d, domains, train, where)
        model = small_tree_regressor().fit(seen, y[train], sample_weight=weights[train] * len(y))
        return np.asarray(model.predict(asked).reshape(len(where), domains))

    return predict


def small_tree_regressor() -> HistGradientBoostingRegressor:
    """Return small boosted trees, which fit in less than a second; stacking sets their weight."""
    return HistGradientBoostingRegressor(
        max_bins=LEVELS,
        max_iter=100,
        learning_rate=0.15,
        max_leaf_nodes=8,
        l2_regularization=1.0,
        early_stopping=False,
        random_state=0,
    )
