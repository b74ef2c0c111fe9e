"""Shift of probabilities so that each class has a given share on average.

With class biases δ, p'(y|x) ∝ p(y|x) exp δ(y), exactly one δ (up to a constant) gives mean
probabilities equal to given shares π: it minimises the convex

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
    """Return the factors exp δ [c] that give probabilities [n, c] the mean ``shares``, all above 0.

    Uses Newton's method with step halving.  The geometric mean of the factors is 1.

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
        # The objective is invariant to a constant added to δ.  The added terms fix this constant
        # and bound the step if every row is certain.
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

    Every share is at least half a row, so that no estimate excludes a class.
    """
    p = np.maximum(probabilities, SMALLEST)
    possible = np.maximum(shares, 0.5 / len(p))
    found: np.ndarray = p * class_factors(p, possible / possible.sum())
    found /= found.sum(axis=1, keepdims=True)
    return found
