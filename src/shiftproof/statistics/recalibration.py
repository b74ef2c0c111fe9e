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
from scipy.optimize import minimize  # type: ignore[import-untyped]
from scipy.special import log_softmax  # type: ignore[import-untyped]

from shiftproof.statistics.sample import Floats, Ints

# The precision of the gradient of the mean loss.
PRECISION = 1e-10
STEPS = 1000


class Recalibrated(NamedTuple):
    """The fitted coefficients, and the weighted mean of −log p(y|x) plus the penalty."""

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
    penalty: float = 0.0,
    bounds: tuple[tuple[float, float], float] = ((-np.inf, np.inf), np.inf),
) -> Recalibrated:
    """Fit a recalibration to classes y [n] with row weights that sum to 1.

    The loss is convex; `penalty` / 2 times the sum of squares of all coefficients is added.

    Args:
        logits: h [n, c], finite.
        y: classes [n].
        slope: whether to fit the slope; otherwise it is 1.
        intercepts: the classes [c] with an intercept and effects; the others have 0.
        features: z [n, k]; none by default.
        offset: o [n, c]; −∞ excludes a class.
        weights: row weights [n]; equal by default.
        penalty: the strength of the penalty.
        bounds: the bounds of the slope, and the largest absolute value of all others.

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
        value = penalty / 2 * float(values @ values) - float(weights @ logs[rows, y])
        return value, np.concatenate(parts) + penalty * values

    start = np.zeros(slope + count * (1 + z.shape[1]))
    start[:slope] = 1
    limits = [bounds[0]] * slope + [(-bounds[1], bounds[1])] * (len(start) - slope)
    if start.size:
        options = {"ftol": 0.0, "gtol": PRECISION, "maxiter": STEPS}
        start = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=limits, options=options).x
    return Recalibrated(*unpacked(start), loss(start)[0])
