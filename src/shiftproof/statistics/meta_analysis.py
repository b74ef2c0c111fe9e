"""Random-effects meta-analysis over domains, and prediction for the next domain.

Domain i of k has a true value θᵢ, and yᵢ is an estimate of it with known sampling variance vᵢ:

    yᵢ = θᵢ + eᵢ,   θᵢ ~ N(μ, τ²),   eᵢ ~ N(0, vᵢ).

For a given τ, with weights wᵢ = 1 / (τ² + vᵢ), the mean is μ̂ = Σ wᵢ yᵢ / Σ wᵢ with variance
1 / Σ wᵢ, and the true value of a new domain is N(μ̂, τ² + 1 / Σ wᵢ).  With few domains τ is poorly
known, and an interval that plugs in one estimate of τ is too short.  `predictive` therefore
averages these normals over the confidence distribution of τ.

At the true τ, the generalised Q statistic

    Q(τ) = Σ wᵢ (yᵢ − μ̂)²

has the χ² distribution with k − 1 degrees of freedom, exactly, and is independent of μ̂.  Q falls as
τ grows, so H(τ) = P(χ² > Q(τ)) is a distribution function.  Its quantiles are the bounds of exact
confidence intervals of τ (the Q-profile intervals of `metafor`).  H(0), the share of χ² that would
need a τ² below 0, is the probability of τ = 0.

- Where sampling errors are negligible, the interval is that of Student's t with k − 1 degrees of
  freedom, which is exact.
- There is no tuning constant.  For equal vᵢ = s², H is the posterior of the weakly informative
  prior that is flat in log(τ² + s²), with the mass on τ² < 0 moved to 0.
- Few domains cannot show that τ is much less than the sampling error s.  An interval that is wide
  enough for τ ≈ s then covers more than 95% of new domains if τ is nearly 0, where the next domain
  is μ itself (`results/expect.md` reports the coverage for each τ).

References: Viechtbauer (2007), *Confidence intervals for the amount of heterogeneity in
meta-analysis* (Q-profile); Iyer, Wang and Mathew (2004), *Models and confidence intervals for true
values in interlaboratory trials* (the generalised pivotal quantity); Nagashima, Noma and Furukawa
(2019), *Prediction intervals for random-effects meta-analysis: a confidence distribution approach*
(with a Q of fixed weights, by the bootstrap); Higgins, Thompson and Spiegelhalter (2009), *A
re-evaluation of random-effects meta-analysis*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtrc, chdtri, ndtr

from shiftproof.core.errors import InvalidValue

Numbers = np.ndarray[Any, np.dtype[np.float64]]

# Number of values of τ in the mixture, and the probability beyond the last.
GRID, BEYOND = 400, 1e-6
# With fewer domains, uncertainty about τ dominates the width of the interval.
FEW = 5


@dataclass(frozen=True)
class Predictive:
    """Predictive distribution of a new domain's true value: a mixture of normals over τ.

    The arrays have the shape [..., values of τ]: one mixture, or many for simulations.
    """

    weights: Numbers
    means: Numbers
    variances: Numbers
    taus: Numbers

    @property
    def tau(self) -> float:
        """Median of τ; its mean is infinite for two domains."""
        return float(self.taus[np.searchsorted(self.weights.cumsum(), 0.5)])

    @property
    def mean(self) -> float:
        """Mean of μ, which is also the mean of a new domain."""
        return float(self.weights @ self.means)

    def below(self, value: float, variance: float = 0.0) -> float:
        """Return P(true value < value), or P(estimate < value) given a sampling variance."""
        return float(self.shares_below(np.array([value]), np.array([variance])))

    def shares_below(self, values: Numbers, variances: Numbers) -> Numbers:
        """Return `below` for each value [..., 1] and its sampling variance [..., 1]."""
        scale = np.sqrt(self.variances + variances)
        return np.asarray((self.weights * ndtr((values - self.means) / scale)).sum(axis=-1))

    def quantile(self, share: float, variance: float = 0.0) -> float:
        """Return the quantile of a new domain: a given share of new domains lies below it."""
        reach = np.sqrt((self.variances + variance).max()) * 40
        reach += 4 * np.spacing(np.abs(self.means).max())  # more than rounding, if domains agree
        low, high = self.means.min() - reach, self.means.max() + reach
        return float(brentq(lambda value: self.below(value, variance) - share, low, high))

    def mean_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the confidence interval of the mean over domains."""
        mean = Predictive(self.weights, self.means, self.variances - self.taus**2, self.taus)
        return mean.interval(level)

    def interval(self, level: float = 0.95, variance: float = 0.0) -> tuple[float, float]:
        """Return the equal-tailed prediction interval of a new domain."""
        tail = (1 - level) / 2
        return self.quantile(tail, variance), self.quantile(1 - tail, variance)


def predictive(estimates: Numbers, variances: Numbers) -> Predictive:
    """Return the predictive distribution of a new domain's true value, averaged over τ."""
    return confidence_mixture(*checked(estimates, variances))


def confidence_mixture(estimates: Numbers, variances: Numbers, grid: int = GRID) -> Predictive:
    """Return the mixtures for estimates [..., k]; the first τ is 0, the others lie on a grid.

    The grid is uniform in asinh(τ / s), with s² the harmonic mean of the vᵢ: fine steps below the
    sampling error and equal ratios above.  Q(τ) < Σ (yᵢ − ȳ)² / τ² bounds the last τ.
    """
    freedom = estimates.shape[-1] - 1
    scale = (1 / variances).mean(axis=-1, keepdims=True) ** -0.5
    squares = estimates.var(axis=-1, keepdims=True) * (freedom + 1)
    last = np.sqrt(squares / chdtri(freedom, 1 - BEYOND))
    steps = np.arcsinh(last / scale) / grid
    edges = scale * np.sinh(steps * np.arange(grid + 1))
    below = chdtrc(freedom, profile(edges**2, estimates, variances).squares)  # H at the edges
    weights = np.diff(below, prepend=0.0, axis=-1)
    middle = scale * np.sinh(steps * (np.arange(grid) + 0.5))
    taus = np.concatenate([np.zeros_like(scale), middle], axis=-1)
    at_taus = profile(taus**2, estimates, variances)
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return Predictive(weights, at_taus.means, taus**2 + at_taus.errors, taus)


def outlier_p_values(estimates: Numbers, variances: Numbers) -> Numbers:
    """Return the two-sided p-value of each domain given all others, multiplied by k.

    Each estimate is compared with the predictive distribution of the other domains, with its own
    sampling variance added.  The factor k is the Bonferroni correction for testing every domain.
    """
    estimates, variances = checked(estimates, variances)
    k = len(estimates)
    if k < 3:
        return np.ones(k)
    p_values = np.ones(k)
    for i in range(k):
        others = np.arange(k) != i
        below = predictive(estimates[others], variances[others]).below(estimates[i], variances[i])
        p_values[i] = min(1.0, 2 * k * min(below, 1 - below))
    return p_values


class Profile(NamedTuple):
    """For each τ²: Q, μ̂ and the variance of μ̂."""

    squares: Numbers
    means: Numbers
    errors: Numbers


def profile(tau2: Numbers, estimates: Numbers, variances: Numbers) -> Profile:
    """Return the profile at values of τ² [..., g] for estimates [..., k].

    With y centred at its unweighted mean, Q = Σ w y² − (Σ w y)² / Σ w is numerically stable.
    """
    middle = estimates.mean(axis=-1, keepdims=True)
    y = estimates - middle
    powers = np.stack([np.ones_like(y), y, y**2], axis=-1)
    sums = (1 / (tau2[..., :, None] + variances[..., None, :])) @ powers
    total, first, second = sums[..., 0], sums[..., 1], sums[..., 2]
    squares = np.maximum(second - first**2 / total, 0.0)
    return Profile(squares, middle + first / total, 1 / total)


def checked(estimates: Numbers, variances: Numbers) -> tuple[Numbers, Numbers]:
    """Return the estimates and variances as vectors, or raise if they cannot be analysed."""
    estimates, variances = (np.asarray(x, dtype=np.float64) for x in (estimates, variances))
    if estimates.shape != variances.shape or estimates.ndim != 1:
        raise InvalidValue("`estimates` and `variances` must be two vectors of one length")
    if len(estimates) < 2:
        raise InvalidValue("one domain does not show how domains differ; two are needed")
    if not (
        np.isfinite(estimates).all() and np.isfinite(variances).all() and (variances > 0).all()
    ):
        raise InvalidValue("`estimates` must be finite, and `variances` finite and above 0")
    return estimates, variances
