"""The regression models for the diagnosis of numeric labels.

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

from collections.abc import Callable

import numpy as np
from scipy.optimize import nnls  # type: ignore[import-untyped]
from sklearn.ensemble import HistGradientBoostingRegressor  # type: ignore[import-untyped]
from sklearn.linear_model import RidgeCV  # type: ignore[import-untyped]
from sklearn.preprocessing import SplineTransformer  # type: ignore[import-untyped]

from shiftproof.information.sample import Floats, Ints
from shiftproof.shift.panel import GROWN, LEVELS, Views

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
    return [*map(_ridge, seen), _trees(views.grown)]


def by_domain(views: Views) -> list[ByDomain]:
    """Return the models that know the domain of a row."""
    seen = (views.raw, views.squares, splines(views.scores[:, :GROWN]))
    return [*(_each(_ridge(each)) for each in seen), _trees_by_domain(views.grown)]


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


def _each(one: Regressor) -> ByDomain:
    def predict(y: Floats, weights: Floats, d: Ints, train: Ints, where: Ints) -> Floats:
        parts = [train[d[train] == domain] for domain in range(int(d.max()) + 1)]
        return np.stack([one(y, weights, part, where) for part in parts], axis=1)

    return predict


def _trees(x: Floats) -> Regressor:
    def predict(y: Floats, weights: Floats, train: Ints, where: Ints) -> Floats:
        model = small_trees().fit(x[train], y[train], sample_weight=weights[train] * len(y))
        return np.asarray(model.predict(x[where]))

    return predict


def _trees_by_domain(x: Floats) -> ByDomain:
    """Return trees that see the domain as one-hot columns."""

    def predict(y: Floats, weights: Floats, d: Ints, train: Ints, where: Ints) -> Floats:
        own = np.eye(int(d.max()) + 1)
        seen = np.concatenate([x[train], own[d[train]]], axis=1)
        model = small_trees().fit(seen, y[train], sample_weight=weights[train] * len(y))
        asked = np.concatenate(
            [np.repeat(x[where], len(own), axis=0), np.tile(own, (len(where), 1))], axis=1
        )
        return np.asarray(model.predict(asked).reshape(len(where), len(own)))

    return predict


def small_trees() -> HistGradientBoostingRegressor:
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
