"""Weights of models, fitted to their predictions of rows that they were not fitted to.

| function | combination | weights |
|---|---|---|
| `log_weights` | log odds of classifiers, added: a log-linear pool | at least 0, least log loss |
| `least_squares_weights` | predicted numbers, added | at least 0, least squared error |
| `mixture_weights` | predictions, averaged (Breiman, 1996) | at least 0, sum 1, least given loss |

All three problems are convex.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import minimize, nnls
from scipy.special import log_softmax, logsumexp

from shiftproof.statistics.sample import Floats, Ints

# Returns a loss and its gradient.
Loss = Callable[[Floats], tuple[float, Floats]]


def log_weights(
    odds: Floats, log_prior: Floats, target: Ints, weights: Floats, least: float = 0.0
) -> Floats:
    """Return the weights a ≥ 0 of log q/prior [c, n, C] with the lowest log loss.

    The weights sum to at least `least`.
    """
    count = len(odds)
    if not count:
        return np.zeros(0)
    odds = np.ascontiguousarray(odds)  # otherwise every product below copies them
    weights = weights / weights.sum()
    right = odds[:, np.arange(len(target)), target] @ weights

    def loss(a: Floats) -> tuple[float, Floats]:
        logits = log_prior + np.tensordot(a, odds, axes=1)
        normaliser = logsumexp(logits, axis=-1)
        q = np.exp(logits - normaliser[:, None]) * weights[:, None]
        slope = np.tensordot(odds, q, axes=([1, 2], [0, 1])) - right
        return float(weights @ normaliser - a @ right), slope

    start, bounds = np.full(count, 1 / count), [(0, None)] * count
    if not least:
        return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x)
    return _within(loss, start, bounds, {"type": "ineq", "fun": lambda a: a.sum() - least}, 1e-9)


def least_squares_weights(predicted: Floats, y: Floats, weights: Floats) -> Floats:
    """Return the weights a ≥ 0 of predictions [c, n] of numbers y [n] with row weights [n].

    >>> predicted = np.array([[1.0, 2.0], [1.0, -1.0]])
    >>> least_squares_weights(predicted, np.array([2.0, 4.0]), np.ones(2)).round(6).tolist()
    [2.0, 0.0]
    """
    root = np.sqrt(weights)
    return np.asarray(nnls((predicted * root).T, y * root)[0])


def mixture_weights(loss: Loss, start: Sequence[float] | Floats) -> Floats:
    """Return the weights on the simplex with the lowest loss, searched from `start`."""
    constraint = {"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like}
    weights = _within(loss, start, [(0, 1)] * len(start), constraint, 1e-12)
    return np.asarray(weights / weights.sum())


def _within(
    loss: Loss,
    start: Sequence[float] | Floats,
    bounds: Sequence[tuple[float, float | None]],
    constraint: dict[str, object],
    precision: float,
) -> Floats:
    options = {"ftol": precision, "maxiter": 1000}
    solved = minimize(
        loss, start, jac=True, method="SLSQP", bounds=bounds, constraints=constraint,
        options=options,
    )  # fmt: skip
    return np.asarray(np.maximum(solved.x, 0))


def pooled_logs(odds: Floats, log_prior: Floats, a: Floats) -> Floats:
    """Return the log-linear pool of log q/prior [c, …, C] with weights a [c], normalised."""
    return np.asarray(log_softmax(log_prior + np.tensordot(a, odds, axes=1), axis=-1))
