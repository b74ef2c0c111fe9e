"""Logistic recalibration: the slope and the intercepts that correct predicted log odds.

With logits h [n, c] of c classes, an offset o and features z [n, k],

    p(y|x) = softmax(o + s h + a + zᵀ β)

has a slope s, intercepts a [c] and effects β [k, c], fitted by maximum likelihood.  Any of them may
be left out: only a slope is temperature scaling, only intercepts are recalibration in the large,
both are logistic recalibration (Cox, 1958), and all of them are a revision of the model.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from shiftproof.statistics.sample import Floats, Ints

# The relative precision of the mean loss, and the precision of its gradient.
EXACT, COARSE = (0.0, 1e-10), (1e7 * np.finfo(float).eps, 1e-5)
STEPS = 1000
# Of Newton's method.
ITERATIONS = 50
# If a model separates the classes, the log-likelihood approaches 0.  Otherwise the label of some
# row has probability at most ½, so the log-likelihood stays below −log 2.
SEPARATED = -0.5
LARGEST = 1e3


class Recalibrated(NamedTuple):
    """The fitted coefficients, and the weighted mean of −log p(y|x)."""

    slope: float
    intercepts: Floats
    effects: Floats
    loss: float


def recalibrate(
    logits: Floats,
    y: Ints,
    *,
    slope: bool = True,
    intercepts: np.ndarray | bool = True,
    features: Floats | None = None,
    offset: Floats | float = 0.0,
    weights: Floats | None = None,
    bounds: tuple[tuple[float, float], float] = ((-np.inf, np.inf), np.inf),
    precision: tuple[float, float] = EXACT,
) -> Recalibrated:
    """Fit a recalibration to classes y [n] with row weights that sum to 1.

    The loss is convex.

    Args:
        logits: h [n, c], finite.
        y: classes [n].
        slope: whether to fit the slope; otherwise it is 1.
        intercepts: the classes [c] with an intercept and effects; the others have 0.
        features: z [n, k]; none by default.
        offset: o [n, c]; −∞ excludes a class.
        weights: row weights [n]; equal by default.
        bounds: the bounds of the slope, and the largest absolute value of all others.
        precision: `EXACT`, or `COARSE`, which takes fewer passes over many rows.

    >>> logits = np.log([[0.9, 0.1]] * 10)
    >>> fitted = recalibrate(logits, np.array([0] * 7 + [1] * 3), slope=False)
    >>> np.exp(log_softmax(logits + fitted.intercepts, axis=1))[0].round(6).tolist()
    [0.7, 0.3]
    """
    n, c = logits.shape
    z = np.zeros((n, 0)) if features is None else features
    weights = np.full(n, 1 / n) if weights is None else weights
    free = np.broadcast_to(intercepts, c)
    rows, count = np.arange(n), int(free.sum())

    def unpacked(values: Floats) -> tuple[float, Floats, Floats]:
        a, effects = np.zeros(c), np.zeros((z.shape[1], c))
        rest = values[1:] if slope else values
        a[free] = rest[:count]
        effects[:, free] = rest[count:].reshape(z.shape[1], count)
        return (float(values[0]) if slope else 1.0), a, effects

    def loss(values: Floats) -> tuple[float, Floats]:
        s, a, effects = unpacked(values)
        logs = log_softmax(offset + s * logits + a + z @ effects, axis=1)
        residual = weights[:, None] * np.exp(logs)
        residual[rows, y] -= weights
        parts = [residual.sum(axis=0)[free], (z.T @ residual)[:, free].ravel()]
        if slope:
            parts.insert(0, np.array([(residual * logits).sum()]))
        return -float(weights @ logs[rows, y]), np.concatenate(parts)

    start = np.zeros(slope + count * (1 + z.shape[1]))
    start[:slope] = 1
    limits = [bounds[0]] * slope + [(-bounds[1], bounds[1])] * (len(start) - slope)
    if start.size:
        options = {"ftol": precision[0], "gtol": precision[1], "maxiter": STEPS}
        start = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=limits, options=options).x
    return Recalibrated(*unpacked(start), loss(start)[0])


class Fitted(NamedTuple):
    """A maximum-likelihood coefficient and its sampling variance."""

    value: float
    variance: float


def first_coefficient(
    design: np.ndarray, offset: np.ndarray, codes: np.ndarray, start: np.ndarray
) -> Fitted | None:
    """Return the first maximum-likelihood coefficient φ of softmax(offset + design φ).

    Its sampling variance is that of the sandwich estimator H⁻¹ G H⁻¹, with the information H and
    the sum G of the rows' squared gradients.  Newton's method halves each step until the likelihood
    does not decrease.  Return None if the classes are separated.  `design` is
    [n, classes, coefficients].
    """
    rows = np.arange(len(codes))
    wanted = design[rows, codes].sum(axis=0)

    def likelihood(values: np.ndarray) -> tuple[float, np.ndarray]:
        logits = offset + design @ values
        logits = logits - logits.max(axis=1, keepdims=True)
        normal = np.exp(logits).sum(axis=1)
        return float((logits[rows, codes] - np.log(normal)).sum()), np.exp(logits) / normal[:, None]

    values = start
    height, shares = likelihood(values)
    for _ in range(ITERATIONS):
        mean = np.einsum("ic,icj->ij", shares, design)
        gradient = wanted - mean.sum(axis=0)
        curvature = np.einsum("ic,icj,ick->jk", shares, design, design, optimize=True)
        curvature = curvature - mean.T @ mean
        try:
            inverse = np.linalg.inv(curvature)
        except np.linalg.LinAlgError:
            return None
        if not np.isfinite(inverse).all():
            return None  # separated so well that the likelihood is numerically flat
        step = inverse @ gradient
        if abs(gradient @ step) < 1e-12 * len(codes):
            gradients = design[rows, codes] - mean
            variance = float(np.sum((gradients @ inverse[0]) ** 2))
            known = variance > 0 and height < SEPARATED
            return Fitted(float(values[0]), variance) if known else None
        while True:
            higher, new_shares = likelihood(values + step)
            if higher >= height or np.abs(step).max() < 1e-12:
                break
            step = step / 2
        values, height, shares = values + step, higher, new_shares
        if not np.abs(values).max() < LARGEST:
            return None
    return None
