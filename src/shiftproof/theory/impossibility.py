"""Environments that a small batch in many dimensions cannot distinguish.

These are constructions for Theorem IV.1.  All environments are Gaussian with mean 0, so the
likelihood of a batch depends only on X Σ⁻¹ Xᵀ, and directions orthogonal to the batch are free.
Both functions return their covariances [environments, dimensions, dimensions].
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from shiftproof.core.errors import InvalidValue
from shiftproof.theory import checks

Array = npt.NDArray[np.float64]
# Relative size below which a singular value counts as zero.
_NEGLIGIBLE = 1e-10


def indistinguishable_environments(
    points: npt.ArrayLike, environments: int = 3, stretch: float = 10.0
) -> Array:
    """Build environments that give the batch the same likelihood (Theorem IV.1, first part).

    In a plane orthogonal to the batch, environment k has variances v and 1/v along axes rotated by
    the angle kπ / (2 · environments); elsewhere all have variance 1.  The likelihood of the batch
    does not depend on that plane, and the determinant is constant; yet for two environments at an
    angle θ, KL = ½ (v − 1/v)² sin²θ, which is arbitrarily large.

    Corrections to the paper's proof: the exponent of the density needs Σ⁻¹, not Σ, and the product
    of the eigenvalues in the free directions must be constant.

    Args:
        points: a batch [b, n] with n > b + 1.
        environments: number of environments to build.
        stretch: v > 1.
    """
    x = _batch(points)
    size, dimensions = x.shape
    if dimensions <= size + 1:
        raise InvalidValue(f"{size} points need more than {size + 1} dimensions, not {dimensions}")
    if not stretch > 1:
        raise InvalidValue(f"the stretch must be above 1, not {stretch}")
    # NumPy's SVD, because SciPy takes longer to import than most reports to create.
    _, sizes, directions = np.linalg.svd(x)
    rank = int(np.sum(sizes > _NEGLIGIBLE * sizes.max(initial=0.0)))
    plane = directions[rank : rank + 2].T  # orthogonal to the batch
    number = checks.count("environments", environments)
    covariances = []
    for angle in np.arange(number) * math.pi / (2 * number):
        turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        inside = turn @ np.diag([stretch, 1 / stretch]) @ turn.T
        covariances.append(np.eye(dimensions) + plane @ (inside - np.eye(2)) @ plane.T)
    return np.stack(covariances)


def environments_blind_between(
    first: npt.ArrayLike, second: npt.ArrayLike, environments: int = 3
) -> Array:
    """Build environments in which two batches are equally likely (Theorem IV.1, second part).

    Let a be the sum of the positive and −c that of the negative eigenvalues of Δ = X₁ᵀX₁ − X₂ᵀX₂.
    A precision of c·t along the former and a·t along the latter makes tr(Σ⁻¹Δ) = 0, which is
    equivalent to p(s₁|d) = p(s₂|d).  Each t gives another environment.

    Correction to the paper's proof, which solves linear equations for the eigenvalues and overlooks
    that they must be positive: with mean 0, a solution exists if and only if Δ is zero or has
    eigenvalues of both signs.  n > 2b + 1 is neither sufficient (for s₂ = s₁/2 there is no such
    Gaussian) nor necessary.  The theorem itself is true: where Δ has only one sign, uniform
    distributions on balls around all points are an example.

    Args:
        first: a batch [b, n].
        second: another batch of the same shape.
        environments: number of environments to build.
    """
    x, y = _batch(first), _batch(second)
    if x.shape != y.shape:
        raise InvalidValue(f"the two batches must have the same shape, not {x.shape} and {y.shape}")
    values, vectors = np.linalg.eigh(x.T @ x - y.T @ y)
    small = _NEGLIGIBLE * max(float(np.sum(x**2)), float(np.sum(y**2)))
    above, below = values > small, values < -small
    precision = np.ones_like(values)
    if above.any() and below.any():
        precision[above] = math.sqrt(-values[below].sum() / values[above].sum())
        precision[below] = 1 / precision[above][0]
    elif above.any() or below.any():
        raise InvalidValue(
            "one batch has larger second moments in every direction, so"
            " no Gaussian with mean 0 makes both equally likely"
        )
    covariance = (vectors / precision) @ vectors.T
    scales = 2.0 ** np.arange(checks.count("environments", environments))
    return np.asarray(scales[:, None, None] * covariance)


def _batch(points: npt.ArrayLike) -> Array:
    x = np.asarray(points, dtype=float)
    if x.ndim != 2 or x.size == 0 or not np.isfinite(x).all():
        raise InvalidValue(
            f"a batch must be finite numbers [points, dimensions], not of shape {x.shape}"
        )
    return x
