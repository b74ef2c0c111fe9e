"""The random-effects model with an estimate of τ plugged in, to compare `meta_analysis` with.

Domain i has a true value θᵢ ~ N(μ, τ²), and an estimate of it with known sampling variance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from shiftproof.statistics.meta_analysis import Numbers, checked, profile


@dataclass(frozen=True)
class RandomEffects:
    """The mean over domains, its standard error, and the standard deviation τ between domains."""

    mean: float
    standard_error: float
    tau: float


def random_effects(estimates: Numbers, variances: Numbers) -> RandomEffects:
    """Fit the random-effects model, with τ² estimated by restricted maximum likelihood.

    >>> found = random_effects(np.array([0.0, 1.0, 2.0]), np.full(3, 0.1))
    >>> round(found.mean, 3), round(found.tau**2, 3)  # the variance, less that of sampling
    (1.0, 0.9)
    """
    tau2 = reml(estimates, variances)
    weights = 1 / (tau2 + variances)
    mean = float(weights @ estimates / weights.sum())
    return RandomEffects(mean, float(weights.sum() ** -0.5), math.sqrt(tau2))


def reml(estimates: Numbers, variances: Numbers) -> float:
    """Return the restricted maximum likelihood (REML) estimate of τ²."""
    estimates, variances = checked(estimates, variances)

    def loss(tau2: float) -> float:
        return -float(log_likelihood(np.array([tau2]), estimates, variances)[0])

    # The likelihood falls beyond the largest squared deviation, and may have several maxima.
    grid = np.ptp(estimates) ** 2 * np.linspace(0, 1, 200) ** 2
    best = int(np.argmax(log_likelihood(grid, estimates, variances)))
    if grid[-1] == 0:
        return 0.0
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = float(minimize_scalar(loss, bounds=(low, high), options={"xatol": 1e-10}).x)
    return found if loss(found) < loss(0.0) else 0.0


def log_likelihood(tau2: Numbers, estimates: Numbers, variances: Numbers) -> Numbers:
    """Return the restricted log-likelihood, ½ (Σ log wᵢ − log Σ wᵢ − Q), up to a constant."""
    own = profile(tau2, estimates, variances)
    logs = np.log(tau2[..., :, None] + variances[..., None, :]).sum(axis=-1)
    found: Numbers = (np.log(own.errors) - logs - own.squares) / 2
    return found
