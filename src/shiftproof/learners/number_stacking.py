"""Weights of a regression ensemble, fitted to predictions for held-out domains.

With eⱼ(x) = fⱼ(x) − y the error of member j on a row whose domain it was not trained on, the
ensemble Σⱼ wⱼ fⱼ with weights that sum to 1 has the error Σⱼ wⱼ eⱼ.  The weights minimise

    L(w; v) = Σ_d v_d · mean over the rows of domain d of ℓ(Σⱼ wⱼ eⱼ)

over the simplex, for shares v of the domains and ℓ the squared or absolute error.  As in
`learners.stacking`, v is drawn from Dirichlet(1, …, 1) many times, and the minimisers are averaged.
Unlike there, members have no prior weight: a mean of probabilities is dominated by the members that
are confident in the label, but in a mean of numbers the error of a poor member counts in proportion
to its weight.  `learners.weighting` guards against weights that few domains determine, by comparing
them with equal weights.

The squared loss is wᵀ R w, with R = Σ_d v_d E_d[e eᵀ].  It is homogeneous in w, so the minimum over
the simplex has the direction of the minimum over w ≥ 0 of wᵀ R w + (Σⱼ wⱼ − 1)², a non-negative
least-squares problem: along a direction u of the simplex with q = uᵀ R u, the minimum is
q / (1 + q), which increases with q.  The absolute loss is minimised by a sequence of such problems
with rows reweighted by 1 / |error| (Schlossmacher, 1973).
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls  # type: ignore[import-untyped]

from shiftproof.learners.stacking import Weights, shares_within

# Reweighting ends when the relative decrease of the loss is smaller, or after this many rounds.
CONVERGED, MOST_ROUNDS = 1e-5, 50
# Errors are clipped to at least this, in standard units, so that an exact row does not dominate.
SMALLEST_ERROR = 1e-6


def number_weights(
    errors: np.ndarray,
    domain: np.ndarray,
    seed: int,
    draws: int = 100,
    *,
    absolute: bool = False,
    weight: np.ndarray | None = None,
) -> Weights:
    """Return non-negative weights [members] that sum to 1, and their standard deviations.

    Args:
        errors: [members, n], errors of members not trained on the row's domain.
        domain: [n], the domain of each row.
        seed: seed for drawing the domains' shares.
        draws: number of draws.
        absolute: minimise absolute instead of squared errors.
        weight: [n], sample weights within each domain; equal by default.

    >>> errors = np.array([[1.0, -1.0, 1.0, -1.0], [-1.0, 1.0, -1.0, 1.0], [9.0, 9.0, 9.0, 9.0]])
    >>> number_weights(errors, np.array([0, 0, 1, 1]), seed=0).mean.round(1).tolist()
    [0.5, 0.5, 0.0]
    """
    names, place = np.unique(domain, return_inverse=True)
    shares = np.random.default_rng(seed).dirichlet(np.ones(len(names)), draws)
    if absolute:
        per_row = shares_within(place, weight)
        found = [least_absolute(errors, share[place] * per_row) for share in shares]
    else:
        moments = np.stack([_moments(errors, place == each, weight) for each in range(len(names))])
        found = [least_squares(np.tensordot(share, moments, 1)) for share in shares]
    return Weights(np.mean(found, axis=0), np.std(found, axis=0))


def _moments(errors: np.ndarray, rows: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Return E[e eᵀ] over the given rows, [members, members]."""
    own = errors[:, rows]
    if weight is None:
        moments: np.ndarray = own @ own.T / own.shape[1]
    else:
        moments = (own * weight[rows]) @ own.T / weight[rows].sum()
    return moments


def least_squares(moments: np.ndarray) -> np.ndarray:
    """Return the w on the simplex that minimises wᵀ R w, for R [members, members]."""
    size = np.trace(moments) or 1.0
    values, vectors = np.linalg.eigh(moments / size)
    root = np.sqrt(np.maximum(values, 0))[:, None] * vectors.T
    found, _ = nnls(np.vstack([root, np.ones(len(root))]), np.append(np.zeros(len(root)), 1.0))
    weights: np.ndarray = found / found.sum()
    return weights


def least_absolute(errors: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the w on the simplex that minimises Σ weight |w · errors|, errors [members, n]."""
    w = least_squares((errors * weight) @ errors.T)
    loss = float(weight @ np.abs(w @ errors))
    for _ in range(MOST_ROUNDS):
        by_size = weight / np.maximum(np.abs(w @ errors), SMALLEST_ERROR)
        following = least_squares((errors * by_size) @ errors.T)
        reached = float(weight @ np.abs(following @ errors))
        if reached > loss * (1 - CONVERGED):
            return following if reached < loss else w
        w, loss = following, reached
    return w
