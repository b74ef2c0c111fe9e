"""Probabilities shifted so that each class has a given share on average.

With biases δ of the classes, p'(y|x) ∝ p(y|x) exp δ(y), there is one δ (up to a constant) whose
mean probabilities are given shares π: it minimises the convex

    mean over rows of log Σ_y p(y|x) exp δ(y)  −  Σ_y π(y) δ(y),

whose gradient is the mean of p' less π.  Under label shift, and for calibrated probabilities, this
is the correction by π / ρ: p(y|x) π(y) / ρ(y) has the mean π (Saerens et al., 2002).
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp, softmax  # type: ignore[import-untyped]

SMALLEST = 1e-7
ITERATIONS = 100
PRECISION = 1e-9


def class_biases(log_p: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return δ [c] with which log p [n, c] has mean probabilities ``shares``, all above 0.

    Newton's method, each step halved until the objective falls.

    >>> p = np.log([[0.5, 0.5], [0.5, 0.5]])
    >>> class_biases(p, np.array([0.8, 0.2])).round(3).tolist()
    [0.693, -0.693]
    """
    n, classes = log_p.shape
    delta = np.zeros(classes)

    def objective(values: np.ndarray) -> float:
        return float(logsumexp(log_p + values, axis=1).mean() - shares @ values)

    height = objective(delta)
    for _ in range(ITERATIONS):
        q = softmax(log_p + delta, axis=1)
        gradient = q.mean(axis=0) - shares
        if np.abs(gradient).max() < PRECISION:
            break
        curvature = np.diag(q.mean(axis=0)) - q.T @ q / n
        # A constant added to δ changes nothing; the ridge keeps it out and bounds the step where
        # every row is certain.
        curvature += np.full((classes, classes), 1 / classes) + 1e-10 * np.eye(classes)
        step = -np.linalg.solve(curvature, gradient)
        step = step / max(np.abs(step).max() / 2, 1)
        while (reached := objective(delta + step)) > height and np.abs(step).max() > 1e-12:
            step = step / 2
        delta, height = delta + step, reached
    centred: np.ndarray = delta - delta.mean()
    return centred


def with_shares(probabilities: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return probabilities [n, c] shifted to have mean ``shares`` [c].

    No share counts as less than half a row: a class cannot be excluded by an estimate.
    """
    log_p = np.log(np.maximum(probabilities, SMALLEST))
    possible = np.maximum(shares, 0.5 / len(probabilities))
    found: np.ndarray = softmax(log_p + class_biases(log_p, possible / possible.sum()), axis=1)
    return found
