"""A panel of models that predict a domain, a class or a number from features.

The classifiers:

| name | sees |
|---|---|
| linear | the features: differences of means |
| squares | their squares and products, the norm, squared projections: spreads and correlations |
| Gaussian | a mean and a covariance for each domain and class: the exact rule for Gaussians |
| marginals | the histogram of each column by domain and class: spreads, tails and gaps |
| trees | steps and interactions, from `GROWN_FROM` rows |

Densities and trees see normal scores, so that heavy tails hide nothing.  Gaussian and marginals use
Bayes' rule, with one density for each pair of group and target value.

The regression models for numeric labels:

| name | sees |
|---|---|
| ridge | the features |
| ridge of squares | their squares and products too |
| ridge of splines | a smooth function of each of the first `GROWN` features |
| trees | steps and interactions |

A ridge uses the penalty with the least leave-one-out error on its own training rows.  `out_of_fold`
fits every model without one fold and predicts that fold; `combined` and `added` combine the
predictions with weights from the other folds (`stacking`).
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp, ndtr
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.preprocessing import SplineTransformer

from shiftproof.core.cores import side_by_side
from shiftproof.statistics.features import leading, normal_scores, second_order
from shiftproof.statistics.sample import Floats, Ints
from shiftproof.statistics.stacking import least_squares_weights, log_weights, pooled_logs

# The most pairs of group and target value for which densities are fitted.
MOST_CELLS = 100
# The number of equally filled bins of a column's histogram.
BINS = 16
# Classifiers use trees from this many rows.
GROWN_FROM = 2_000
# The most columns that trees see, and that densities see; of more, the leading components.
GROWN, LEADING = 32, 64
# Values are clipped at this many standard deviations for squares and products.
FARTHEST = 4.0
# The number of quantiles of a column that trees see.
LEVELS = 64
# The settings of small boosted trees.
TREES: dict[str, Any] = {
    "learning_rate": 0.15, "max_leaf_nodes": 8, "l2_regularization": 1.0,
    "early_stopping": False, "random_state": 0,
}  # fmt: skip
# The prior variance of the log odds in a logistic regression.
ODDS = 4.0
# The penalties of a ridge, and the knots of a cubic spline.
PENALTIES, KNOTS = np.geomspace(1e-2, 1e4, 7), 6


@dataclass(frozen=True, eq=False)
class Target:
    """Values [n] to predict for weighted rows; `group` [n] may be known to a model.

    `classes` is the number of classes, and 0 for numbers.
    """

    values: np.ndarray
    classes: int
    weights: Floats
    group: Ints
    groups: int

    @functools.cached_property
    def prior(self) -> Floats:
        """The weighted shares of the classes."""
        shares = np.bincount(self.values, self.weights, minlength=self.classes)
        return np.asarray(np.maximum(shares / shares.sum(), 1e-12))


class Model(ABC):
    """A kind of model.

    It is fitted to the rows `train` and predicts the rows `where`: log q(t|x) [·, classes], or
    numbers [·].
    """

    @abstractmethod
    def alone(self, target: Target, train: Ints, where: Ints) -> Floats:
        """Predict without the group."""

    @abstractmethod
    def by_group(self, target: Target, train: Ints, where: Ints) -> Floats:
        """Predict for every group: [·, groups, …]."""


@dataclass(frozen=True, eq=False)
class Estimated(Model):
    """An estimator of scikit-learn on columns x.

    It learns groups from `indicator` columns, or else is fitted to each group.  Row weights are
    scaled to the mean 1 over all rows, or over those trained on if `rescaled`.
    """

    x: Floats
    build: Callable[[], Any]
    indicators: bool = False
    rescaled: bool = True

    def alone(self, target: Target, train: Ints, where: Ints) -> Floats:
        """Fit one model."""
        return self._predicted(self.x[train], target, train, self.x[where])

    def by_group(self, target: Target, train: Ints, where: Ints) -> Floats:
        """Fit a model to each group, or one to all with indicator columns."""
        groups = range(target.groups)
        if not self.indicators:
            parts = [train[target.group[train] == g] for g in groups]
            models = [self if len(part) else Shares() for part in parts]
            fits = zip(models, parts, strict=True)
            return np.stack([one.alone(target, part, where) for one, part in fits], axis=1)
        hot = np.eye(target.groups)
        rows = np.concatenate([self.x[train], hot[target.group[train]]], axis=1)
        there = np.repeat(self.x[where], target.groups, axis=0)
        there = np.concatenate([there, np.tile(hot, (len(where), 1))], axis=1)
        predicted = self._predicted(rows, target, train, there)
        return predicted.reshape(len(where), target.groups, *predicted.shape[1:])

    def _predicted(self, x: Floats, target: Target, train: Ints, there: Floats) -> Floats:
        weights, y = target.weights[train], target.values[train]
        weights = weights * (len(y) / weights.sum() if self.rescaled else len(target.weights))
        if not target.classes:
            fitted = self.build().fit(x, y, sample_weight=weights)
            return np.asarray(fitted.predict(there))
        known, codes = np.unique(y, return_inverse=True)
        q = np.zeros((len(there), target.classes))
        if len(known) == 1:
            q[:, known] = 1
        else:
            # Products of small float32 matrices may raise the invalid flag for unused parts of
            # registers (seen with finite factors and a finite product).
            with np.errstate(invalid="ignore"):
                fitted = self.build().fit(x, codes, sample_weight=weights)
                q[:, known] = fitted.predict_proba(there)
        return _mixed_with(target.prior, q, len(train))


class Shares(Model):
    """The shares of the classes in each group."""

    def alone(self, target: Target, train: Ints, where: Ints) -> Floats:
        """Return the prior."""
        return np.broadcast_to(np.log(target.prior), (len(where), target.classes))

    def by_group(self, target: Target, train: Ints, where: Ints) -> Floats:
        """Return the shares in each group; the prior counts as one more row."""
        counts = np.zeros((target.groups, target.classes))
        np.add.at(counts, (target.group[train], target.values[train]), 1)
        shares = (counts + target.prior) / (counts.sum(axis=1, keepdims=True) + 1)
        return np.broadcast_to(np.log(shares), (len(where), *shares.shape))


@dataclass(frozen=True, eq=False)
class Density(Model):
    """Bayes' rule with a density of normal scores z [n, k] for each pair of group and class."""

    z: Floats

    @abstractmethod
    def log_densities(self, cell: Ints, cells: int, train: Ints, where: Ints) -> Floats:
        """Return the log density of the rows `where` in each cell: [·, cells].

        `cell` are the cells of the rows `train`; a cell without a density has −∞.
        """

    def alone(self, target: Target, train: Ints, where: Ints) -> Floats:
        """Add the densities of all groups."""
        return self._posterior(target, train, logsumexp(self._joint(target, train, where), axis=1))

    def by_group(self, target: Target, train: Ints, where: Ints) -> Floats:
        """Use the densities of each group."""
        return self._posterior(target, train, self._joint(target, train, where))

    def _joint(self, target: Target, train: Ints, where: Ints) -> Floats:
        """Return log p(x, t, g) up to a constant: [·, groups, classes]."""
        cells = target.groups * target.classes
        if cells > MOST_CELLS:
            return np.full((len(where), target.groups, target.classes), -np.inf)
        cell = target.group[train] * target.classes + target.values[train]
        with np.errstate(divide="ignore"):
            log_weights = np.log(np.bincount(cell, target.weights[train], minlength=cells))
        logs = log_weights + self.log_densities(cell, cells, train, where)
        return logs.reshape(len(where), target.groups, target.classes)

    def _posterior(self, target: Target, train: Ints, logs: Floats) -> Floats:
        """Normalise log weights [..., C]; without any, return the prior."""
        prior = np.log(target.prior)
        top = logs.max(axis=-1, keepdims=True)
        known = np.isfinite(top)
        logs = np.where(known, logs - np.where(known, top, 0), prior)
        q = np.exp(logs - logsumexp(logs, axis=-1, keepdims=True))
        return _mixed_with(target.prior, q, len(train))


class Gaussian(Density):
    """One Gaussian for each cell.

    Each covariance averages that of the cell's rows and the pooled one, which counts as k rows: the
    Bayes estimate for a prior worth k rows.
    """

    def log_densities(self, cell: Ints, cells: int, train: Ints, where: Ints) -> Floats:
        """Return the log densities, of cells with at least two rows."""
        x, there = self.z[train], self.z[where]
        k = x.shape[1]
        members = {c: cell == c for c in np.flatnonzero(np.bincount(cell) > 1)}
        centred, used = np.zeros_like(x), np.zeros(len(x), dtype=bool)
        for rows in members.values():
            centred[rows] = x[rows] - x[rows].mean(axis=0)
            used |= rows
        common = centred[used].T @ centred[used] / max(used.sum() - len(members), 1)
        common[np.diag_indices(k)] += 1e-3
        logs = np.full((len(where), cells), -np.inf)
        for c, rows in members.items():
            part = centred[rows]
            root = np.linalg.cholesky((part.T @ part + k * common) / (len(part) + k))
            gap = (there - x[rows].mean(axis=0)).T
            white = solve_triangular(root, gap, lower=True, check_finite=False)
            logs[:, c] = -(white**2).sum(axis=0) / 2 - np.log(np.diag(root)).sum()
        return logs


class Marginals(Density):
    """Histograms of the columns, assumed independent.

    Each histogram is smoothed by `BINS` rows, distributed over the bins as all rows are.
    """

    def log_densities(self, cell: Ints, cells: int, train: Ints, where: Ints) -> Floats:
        """Return the log densities, up to a constant."""
        columns = np.arange(self.z.shape[1])
        bins = np.minimum((BINS * ndtr(self.z)).astype(np.intp), BINS - 1) + BINS * columns
        width = BINS * len(columns)
        expected = np.bincount(bins[train].ravel(), minlength=width) / len(train)
        logs = np.full((len(where), cells), -np.inf)
        for c in np.unique(cell):
            rows = train[cell == c]
            counts = np.bincount(bins[rows].ravel(), minlength=width)
            shares = np.log((counts + BINS * expected + 1e-9) / (len(rows) + BINS))
            logs[:, c] = shares[bins[where]].sum(axis=1)
        return logs


def _mixed_with(prior: Floats, q: Floats, rows: int) -> Floats:
    """Return the logarithm of q mixed with the prior, which has the weight of one of the rows."""
    return np.asarray(np.log((rows * q + prior) / (rows + 1)))


@dataclass(frozen=True, eq=False)
class Views:
    """Transformed features [n, k] as the models see them."""

    raw: Floats
    scores: Floats
    squares: Floats
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
            # Few distinct values, because scikit-learn is slow at binning weighted rows.
            np.floor(LEVELS * ndtr(scores[:, :GROWN])),
        )

    def classifiers(self) -> list[Model]:
        """Return the classifiers."""
        scores = self.scores[:, :LEADING]
        models = [_logistic(self.raw), _logistic(self.squares), Gaussian(scores), Marginals(scores)]
        if len(self.raw) >= GROWN_FROM:
            models.append(Estimated(self.grown, small_trees, indicators=True))
        return models

    def regressors(self) -> list[Model]:
        """Return the models of numbers."""
        splines = SplineTransformer(n_knots=KNOTS, extrapolation="linear")
        splines = splines.fit_transform(self.scores[:, :GROWN])
        seen = (self.raw, self.squares, np.asarray(splines - splines.mean(axis=0)))
        trees = functools.partial(
            HistGradientBoostingRegressor, max_bins=LEVELS, max_iter=100, **TREES
        )
        ridges = [Estimated(x, functools.partial(RidgeCV, alphas=PENALTIES)) for x in seen]
        return [*ridges, Estimated(self.grown, trees, indicators=True, rescaled=False)]


def _logistic(x: Floats) -> Model:
    settings: dict[str, Any] = {"C": ODDS / x.shape[1], "max_iter": 60, "tol": 1e-3}
    # Half the bytes to read, and precise enough for standardised columns and a tolerance of 1e-3.
    return Estimated(x.astype(np.float32), functools.partial(LogisticRegression, **settings))


def small_trees(bins: int = LEVELS) -> HistGradientBoostingClassifier:
    """Return a few small boosted trees, which find steps and interactions within a second.

    For columns with few distinct values, fewer `bins` give the same trees faster.
    """
    return HistGradientBoostingClassifier(max_bins=bins, max_iter=40, **TREES)


def ridge_with_error(x: Floats, y: Floats) -> tuple[RidgeCV, float]:
    """Return a ridge of y [n] on x [n, k], and its mean squared leave-one-out error."""
    model = RidgeCV(alphas=PENALTIES, store_cv_results=True).fit(x, y)
    return model, float(model.cv_results_.mean(axis=0).min())


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Ignore warnings about fits that stop early, or about many classes with few rows.

    Used once around all fits, because all threads share the warning filters.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        yield


def out_of_fold(
    fits: Sequence[Callable[[Ints, Ints], Floats]],
    fold: Ints,
    tick: Callable[[], None] = lambda: None,
) -> list[Floats]:
    """Return the predictions [n, …] of each fit for all rows, made without the row's fold [n].

    A fit gets the rows to train on and the rows to predict.  `tick` is called for each fold.
    """
    members = [np.flatnonzero(fold == k) for k in range(int(fold.max()) + 1)]

    def of_fold(where: Ints) -> list[Floats]:
        train = np.flatnonzero(fold != fold[where[0]])
        return [fit(train, where) for fit in fits]

    parts = []
    with quiet():
        for part in side_by_side([functools.partial(of_fold, where) for where in members]):
            parts.append(part)
            tick()
    order = np.argsort(np.concatenate(members))
    return [np.concatenate(predicted)[order] for predicted in zip(*parts, strict=True)]


def combined(logs: Floats, target: Target, fold: Ints) -> Floats:
    """Combine log q of several classifiers [c, n, …, C], with weights from the other folds."""
    log_prior = np.log(target.prior)
    odds = logs - log_prior
    known = odds if odds.ndim == 3 else odds[:, np.arange(len(fold)), target.group]
    pooled = np.empty(logs.shape[1:])

    def pool(k: int) -> None:
        rows, where = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        a = log_weights(known[:, rows], log_prior, target.values[rows], target.weights[rows])
        pooled[where] = pooled_logs(odds.take(where, axis=1), log_prior, a)

    list(side_by_side([functools.partial(pool, k) for k in range(int(fold.max()) + 1)]))
    return pooled


def added(predicted: Floats, target: Target, fold: Ints) -> Floats:
    """Add predicted numbers [c, n] with weights a ≥ 0 from the other folds: [n]."""
    total = np.empty(predicted.shape[1])
    for k in range(int(fold.max()) + 1):
        rows = np.flatnonzero(fold != k)
        a = least_squares_weights(predicted[:, rows], target.values[rows], target.weights[rows])
        total[fold == k] = a @ predicted[:, fold == k]
    return total
