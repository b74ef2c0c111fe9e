"""Ridge regression solved exactly: a whole path of penalties, for every held-out fold.

With rows xᵢ [d], labels yᵢ [k] and sample weights ωᵢ ≥ 0 that sum to 1, the coefficients w [k, d]
and the intercepts b [k] minimise

    F(w, b) = ½ Σᵢ ωᵢ ‖w xᵢ + b − yᵢ‖² + (α/2) ‖w‖².

scikit-learn's `Ridge` has the same minimum with penalty α n.  With x̄ and ȳ the weighted means,
C = Σ ωᵢ (xᵢ − x̄)(xᵢ − x̄)ᵀ = V S Vᵀ and c = Σ ωᵢ (yᵢ − ȳ)(xᵢ − x̄)ᵀ,

    w = c V (S + α)⁻¹ Vᵀ,   b = ȳ − w x̄,

so one decomposition serves all penalties and columns of y.  C and c are sums over rows.  Those of
each fold are computed once; those without a fold are the total minus the sums of the fold.  So all
folds together take one pass over the data.  With more columns than rows, the decomposition is that
of the rows instead (`logistic.rotate`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from shiftproof.learners.logistic import RANK_TOLERANCE, LinearPath, checked_penalties, rotate


def ridge_path(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray, penalties: Sequence[float]
) -> LinearPath:
    """Solve for every penalty α > 0: x [n, d], y [n, k], weights [n], scaled to sum to 1.

    >>> x, y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [3.0], [5.0]])
    >>> path = ridge_path(x, y, np.ones(3), [1e-9, 2 / 3])
    >>> path.coefficients.round(6).tolist(), path.intercepts.round(6).tolist()
    ([[[2.0]], [[1.0]]], [[1.0], [2.0]])
    """
    return ridge_paths(x, y, weights, np.zeros(len(y), dtype=int), penalties)[None]


def ridge_paths(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray, folds: np.ndarray, penalties: Sequence[float]
) -> dict[int | None, LinearPath]:
    """Return the path fitted to all rows, under None, and the path without each fold [n]."""
    alphas = checked_penalties(penalties, weights[None])
    names = np.unique(folds)
    left_out = [None, *(int(name) for name in names)] if len(names) > 1 else [None]
    if x.shape[1] > len(x):
        return {
            name: _by_rows(x, y, np.where(folds == name, 0.0, weights), alphas) for name in left_out
        }
    # Centred once on all rows, so that sums of squares lose no precision to a large mean.
    shares = weights / weights.sum()
    origin, height = shares @ x, shares @ y
    rows, labels = x - origin, y - height
    sums = {int(name): _Sums.of(rows, labels, shares, folds == name) for name in names}
    total = functools.reduce(_Sums.plus, sums.values())
    paths: dict[int | None, LinearPath] = {}
    for name in left_out:
        fitted = total if name is None else total.plus(sums[name], -1)
        coefficients, intercepts = fitted.solve(alphas)
        paths[name] = LinearPath(coefficients, intercepts + height - coefficients @ origin)
    return paths


class _Sums(NamedTuple):
    """Σ ω, Σ ω x [d], Σ ω y [k], Σ ω x xᵀ [d, d] and Σ ω y xᵀ [k, d]."""

    weight: float
    x: np.ndarray
    y: np.ndarray
    xx: np.ndarray
    xy: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray, y: np.ndarray, weights: np.ndarray, rows: np.ndarray) -> _Sums:
        x, y, weights = x[rows], y[rows], weights[rows]
        weighted = weights[:, None] * x
        return cls(
            float(weights.sum()), weighted.sum(axis=0), weights @ y, weighted.T @ x,
            y.T @ weighted,
        )  # fmt: skip

    def plus(self, other: _Sums, sign: int = 1) -> _Sums:
        pairs: Any = zip(self, other, strict=True)
        return _Sums(*(part + sign * added for part, added in pairs))

    def solve(self, alphas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients [penalties, k, d] and intercepts [penalties, k]."""
        x, y = self.x / self.weight, self.y / self.weight
        variance, basis = np.linalg.eigh(self.xx / self.weight - np.outer(x, x))
        projected = (self.xy / self.weight - np.outer(y, x)) @ basis
        # Smaller variances are rounding errors and may be negative.
        positive = variance > RANK_TOLERANCE * max(float(variance[-1]), np.finfo(float).tiny)
        shrunk = projected[:, positive] / (variance[positive] + alphas[:, None, None])
        coefficients = shrunk @ basis[:, positive].T
        return coefficients, y - coefficients @ x


def _by_rows(x: np.ndarray, y: np.ndarray, weights: np.ndarray, alphas: np.ndarray) -> LinearPath:
    """Return the path for data with more columns than rows."""
    used = weights > 0
    x, y, shares = x[used], y[used], weights[used] / weights[used].sum()
    centre, height = shares @ x, shares @ y
    rows, basis, variance = rotate(x - centre, shares)
    projected = (shares[:, None] * (y - height)).T @ rows
    coefficients = (projected / (variance + alphas[:, None, None])) @ basis.T
    return LinearPath(coefficients, height - coefficients @ centre)
