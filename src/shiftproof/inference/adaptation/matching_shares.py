"""Probabilities shifted so that each class has a given share on average.

With biases δ of the classes, p'(y|x) ∝ p(y|x) exp δ(y), there is one δ (up to a constant) whose
mean probabilities are given shares π: it minimises the convex

    mean over rows of log Σ_y p(y|x) exp δ(y)  −  Σ_y π(y) δ(y),

whose gradient is the mean of p' less π.  Under label shift, and for calibrated probabilities, this
is the correction by π / ρ: p(y|x) π(y) / ρ(y) has the mean π (Saerens et al., 2002).
"""

from __future__ import annotations

import numpy as np

SMALLEST = 1e-7
ITERATIONS = 100
PRECISION = 1e-9


def class_factors(probabilities: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return exp δ [c] with which probabilities [n, c], all above 0, have mean ``shares``, too.

    Newton's method, each step halved until the objective falls.  The factors are 1 on average, as a
    geometric mean.

    >>> p = np.array([[0.5, 0.5], [0.5, 0.5]])
    >>> class_factors(p, np.array([0.8, 0.2])).round(3).tolist()
    [2.0, 0.5]
    """
    n, classes = probabilities.shape
    delta = np.zeros(classes)
    totals = probabilities.sum(axis=1)
    height = float(np.log(totals).mean())
    for _ in range(ITERATIONS):
        q = probabilities * np.exp(delta) / totals[:, None]
        gradient = q.mean(axis=0) - shares
        if np.abs(gradient).max() < PRECISION:
            break
        curvature = np.diag(q.mean(axis=0)) - q.T @ q / n
        # A constant added to δ changes nothing; the ridge keeps it out and bounds the step where
        # every row is certain.
        curvature += np.full((classes, classes), 1 / classes) + 1e-10 * np.eye(classes)
        step = -np.linalg.solve(curvature, gradient)
        step = step / max(np.abs(step).max() / 2, 1)
        while True:
            reached = delta + step
            totals = probabilities @ np.exp(reached)
            risen = float(np.log(totals).mean() - shares @ reached)
            if risen <= height or np.abs(step).max() <= 1e-12:
                break
            step = step / 2
        delta, height = reached, risen
    found: np.ndarray = np.exp(delta - delta.mean())
    return found


def with_shares(probabilities: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return probabilities [n, c] shifted to have mean ``shares`` [c].

    No share counts as less than half a row: a class cannot be excluded by an estimate.
    """
    p = np.maximum(probabilities, SMALLEST)
    possible = np.maximum(shares, 0.5 / len(p))
    found: np.ndarray = p * class_factors(p, possible / possible.sum())
    found /= found.sum(axis=1, keepdims=True)
    return found
