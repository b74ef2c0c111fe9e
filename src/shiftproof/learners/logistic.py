"""Logistic regression solved exactly: a whole path of penalties, for many sample weights at once.

With rows xᵢ [d], labels yᵢ and sample weights ωᵢ ≥ 0 that sum to 1, the coefficients W [c, d] and
intercepts b [c] minimise

    F(W, b) = Σᵢ ωᵢ ℓ(W xᵢ + b, yᵢ) + (α/2) ‖W‖²,

with ℓ the cross-entropy of a softmax over c > 2 classes, or of one logit for two.  scikit-learn's
`LogisticRegression` has the same minimum for C = 1 / (α n).

Three things make a path of penalties for every held-out domain cheap:

- **One pass for all.**  Each held-out domain is a row of sample weights with zeros.  The problems
  are separate, so minimising the sum of their objectives solves all of them, and one product of the
  data with the stacked coefficients serves every domain.
- **Rotation.**  In the basis of eigenvectors of the covariance, scaled by 1/√(h s + α) (s the
  eigenvalue, h a typical curvature of ℓ), the objective is well conditioned, and L-BFGS needs few
  steps.  With more columns than rows, the basis has one vector per row, which is sufficient.
- **Warm starts**, from the strongest penalty to the weakest: the path is smooth in log α, so the
  cubic through the last four solutions is close to the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_softmax

from shiftproof.core.errors import InvalidValue

# Eigenvalues below this share of the largest are rounding errors.
RANK_TOLERANCE = 1e-12


class LinearPath(NamedTuple):
    """Coefficients [penalties, …, k, d] and intercepts [penalties, …, k] of k outputs."""

    coefficients: np.ndarray
    intercepts: np.ndarray

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return outputs [penalties, n, k] for x [n, d]."""
        outputs: np.ndarray = x @ self.coefficients.swapaxes(1, 2) + self.intercepts[:, None]
        return outputs


def logistic_path(
    x: np.ndarray,
    y: np.ndarray,
    classes: int,
    weights: np.ndarray,
    penalties: Sequence[float],
    tolerance: float = 1e-8,
) -> LinearPath:
    """Solve for every penalty α and every row of sample weights: [penalties, weightings, c, d].

    For two classes, c is 1: the logit of the second class.

    Args:
        x: [n, d], finite.
        y: [n], the class of each row, 0 … classes − 1.
        classes: the number of classes.
        weights: [weightings, n], non-negative; each row is scaled to sum to 1.
        penalties: α > 0, in any order; results are in the order given.
        tolerance: gradient tolerance of L-BFGS, in the scaled basis.

    >>> x, y = np.array([[-1.0], [1.0], [3.0], [5.0]]), np.array([0, 1, 0, 1])
    >>> path = logistic_path(x, y, 2, np.ones((1, 4)), [0.1])
    >>> path.coefficients.round(3).tolist(), path.intercepts.round(3).tolist()
    ([[[[0.408]]]], [[[-0.815]]])
    """
    solutions = dict(logistic_solutions(x, y, classes, weights, penalties, tolerance))
    in_order = [solutions[number] for number in range(len(penalties))]
    return LinearPath(*(np.stack(parts) for parts in zip(*in_order, strict=True)))


def logistic_solutions(
    x: np.ndarray,
    y: np.ndarray,
    classes: int,
    weights: np.ndarray,
    penalties: Sequence[float],
    tolerance: float = 1e-8,
) -> Iterator[tuple[int, tuple[np.ndarray, np.ndarray]]]:
    """Yield the solutions of `logistic_path` from the strongest penalty to the weakest.

    Each solution is the index of its penalty with coefficients [weightings, c, d] and intercepts
    [weightings, c].
    """
    weights = np.asarray(weights, dtype=np.float64)
    alphas = checked_penalties(penalties, weights)
    used = weights.any(axis=0)
    weights = weights[:, used] / weights[:, used].sum(axis=1, keepdims=True)
    problem = _Problem(np.asarray(x, dtype=np.float64)[used], y[used], classes, weights)
    solved: list[tuple[float, np.ndarray]] = []
    for position in np.argsort(-alphas, kind="stable"):
        alpha = float(alphas[position])
        start = _extrapolated(solved, alpha) if solved else np.zeros(problem.shape)
        theta = problem.solve(start, alpha, tolerance)
        solved = [*(solution for solution in solved[-3:] if solution[0] != alpha), (alpha, theta)]
        yield int(position), problem.in_columns(theta)


def checked_penalties(penalties: Sequence[float], weights: np.ndarray) -> np.ndarray:
    """Return the penalties as an array; reject these or sample weights that are not allowed."""
    alphas = np.asarray(penalties, dtype=np.float64)
    if (alphas <= 0).any():
        raise InvalidValue(f"a penalty must be above 0, not {alphas.min():g}")
    if (weights < 0).any() or not (weights.sum(axis=1) > 0).all():
        raise InvalidValue("sample weights must not be negative, nor all 0")
    return alphas


def _extrapolated(solved: Sequence[tuple[float, np.ndarray]], alpha: float) -> np.ndarray:
    """Evaluate the polynomial in log α through the solutions (α, θ) at another α."""
    points = np.log([point for point, _ in solved])
    at = np.zeros_like(solved[0][1])
    for point, (_, theta) in zip(points, solved, strict=True):
        others = points[points != point]
        at += theta * np.prod((np.log(alpha) - others) / (point - others))
    return at


class _Problem:
    """The sum of the objectives of several weightings, in the rotated basis.

    Parameters are [c, weightings, rank + 1], with the intercepts last.  Logits are
    [c, weightings, n], so that sums over classes read contiguous memory.
    """

    def __init__(self, x: np.ndarray, y: np.ndarray, classes: int, weights: np.ndarray) -> None:
        self.binary = classes == 2
        self.y = y
        self.weights = weights
        self.targets = (y == 1)[None] if self.binary else np.arange(classes)[:, None] == y
        pooled = weights.mean(axis=0)
        self.centre = pooled @ x
        rotated, self.basis, variance = rotate(x - self.centre, pooled)
        share = self.targets @ pooled
        self.curvature = max(float((share * (1 - share)).mean()), 1e-3)
        self.variance = np.append(variance, 1.0)
        self.rows = np.column_stack([rotated, np.ones(len(x))])
        self.shape = (len(self.targets), len(weights), self.rows.shape[1])

    def solve(self, start: np.ndarray, alpha: float, tolerance: float) -> np.ndarray:
        """Return the parameters at the minimum."""
        penalty = np.full(self.shape[2], alpha)
        penalty[-1] = 0  # intercepts are not penalised
        scale = 1 / np.sqrt(self.curvature * self.variance + penalty)
        rows = self.rows * scale
        penalty = penalty * scale**2

        def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
            theta = flat.reshape(-1, self.shape[2])
            logits = (theta @ rows.T).reshape(*self.shape[:2], len(rows))
            risk, residual = self._risk(logits)
            shrunk = penalty * theta
            slope = residual.reshape(-1, len(rows)) @ rows + shrunk
            return risk + float((shrunk * theta).sum()) / 2, slope.ravel()

        options = {"gtol": tolerance, "ftol": 0.0, "maxiter": 10_000, "maxfun": 20_000}
        scaled = (start / scale).ravel()
        optimum = minimize(objective, scaled, jac=True, method="L-BFGS-B", options=options)
        theta: np.ndarray = optimum.x.reshape(self.shape) * scale
        return theta

    def _risk(self, logits: np.ndarray) -> tuple[float, np.ndarray]:
        """Return Σ ω ℓ and its derivative with respect to the logits, which are overwritten."""
        targets = self.targets[:, None, :]
        if self.binary:
            losses = np.logaddexp(0, logits) - targets * logits
            predicted = expit(logits)
        else:
            logits -= logits.max(axis=0)
            of_label = np.take_along_axis(logits, self.y[None, None, :], axis=0)
            predicted = np.exp(logits, out=logits)
            total = predicted.sum(axis=0)
            losses = np.log(total) - of_label
            predicted /= total
        risk = float((self.weights * losses).sum())
        predicted -= targets
        predicted *= self.weights
        return risk, predicted

    def in_columns(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients [weightings, c, d] and intercepts [weightings, c]."""
        theta = theta.transpose(1, 0, 2)
        coefficients = theta[:, :, :-1] @ self.basis.T
        return coefficients, theta[:, :, -1] - coefficients @ self.centre


def rotate(x: np.ndarray, pooled: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return x in the basis of its covariance's eigenvectors, the basis, and the variances.

    x [n, d] → [n, r], [d, r] and [r]; r is at most n and d.
    """
    half = np.sqrt(pooled)[:, None] * x
    if x.shape[1] <= len(x):
        variance, basis = np.linalg.eigh(half.T @ half)
    else:
        variance, left = np.linalg.eigh(half @ half.T)
        with np.errstate(divide="ignore", invalid="ignore"):
            basis = half.T @ left / np.sqrt(variance)
    positive = variance > RANK_TOLERANCE * max(float(variance[-1]), np.finfo(float).tiny)
    basis = basis[:, positive]
    return x @ basis, basis, variance[positive]


def probabilities(logits: np.ndarray) -> np.ndarray:
    """Return the class probabilities of logits [n, c], or [n, 1] of the second of two classes."""
    if logits.shape[1] == 1:
        second = expit(logits)
        return np.hstack([1 - second, second])
    predicted: np.ndarray = np.exp(log_softmax(logits, axis=1))
    return predicted
