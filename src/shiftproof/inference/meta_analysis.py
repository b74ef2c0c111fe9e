"""Random-effects meta-analysis over domains: what to expect of the next one.

Domain i of k has a true figure θᵢ, of which yᵢ is an estimate with known sampling variance vᵢ:

    yᵢ = θᵢ + eᵢ,   θᵢ ~ N(μ, τ²),   eᵢ ~ N(0, vᵢ).

For a given τ, with weights wᵢ = 1 / (τ² + vᵢ), the mean is μ̂ = Σ wᵢ yᵢ / Σ wᵢ with variance
1 / Σ wᵢ, and the true figure of a new domain is N(μ̂, τ² + 1 / Σ wᵢ).  With few domains τ is hardly
known, and an interval that takes one estimate of τ for the truth is too short.  `predictive`
therefore averages over τ.  A flat prior of μ integrates to the restricted likelihood of τ; times
the prior of τ, it weighs each τ, and the new domain's distribution is the mixture of these normals.

The prior of τ is weakly informative:

    p(τ) ∝ 1 / √(2s² + τ²) · 1 / (1 + (τ/5)²),   s² the harmonic mean of the vᵢ.

- Up to the sampling error it is flat: data hardly tell such a τ from 0.
- Between the sampling error and 5 it is flat in log τ: no order of magnitude is favoured.  Under
  this prior alone, and with negligible vᵢ, the interval is the usual one of Student's t with k − 1
  degrees of freedom, which is exact.
- Beyond 5 it falls.  On the additive scale of every figure (log odds, logarithms) that is more than
  domains differ: at τ = 5 most are below 5% or above 95%.

The prior is proper, so intervals of 95% hold 95% of new domains on average over it.  For one τ they
need not.  Few domains cannot show that τ is much less than the sampling error, so an interval that
is wide enough for τ ≈ s holds more than 95% where τ is nearly 0.  The factor 2 was chosen by
simulation, to come close to 95% for every τ from the sampling error on (`results/expect.md`).

References: Higgins, Thompson and Spiegelhalter (2009), *A re-evaluation of random-effects
meta-analysis*; DuMouchel (1994), *Hierarchical Bayes linear models for meta-analysis* (a prior with
the scale of the sampling errors); Gelman (2006), *Prior distributions for variance parameters in
hierarchical models*; Paule and Mandel (1982), *Consensus values and weighting factors*.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar  # type: ignore[import-untyped]
from scipy.special import ndtr  # type: ignore[import-untyped]
from scipy.stats import t as student  # type: ignore[import-untyped]

from shiftproof.core.errors import InvalidValue

Numbers = np.ndarray[Any, np.dtype[np.float64]]

# Where the prior of τ begins to fall; and up to which multiple of s², for τ², it is flat.
LARGEST, FLAT = 5.0, 2.0
# Number of values of τ that the mixture averages over, and the last of them as a multiple of 5.
GRID, LAST = 2000, 1000.0
# With fewer domains, the prior decides much of the interval.
FEW = 5


@dataclass(frozen=True)
class RandomEffects:
    """The mean over domains, its standard error, and the standard deviation τ between domains."""

    mean: float
    standard_error: float
    tau: float


@dataclass(frozen=True)
class Predictive:
    """Distribution of the true figure of a new domain: a mixture of normals.

    `tau` is the posterior median of τ, and `mean` the posterior mean of μ.
    """

    weights: Numbers
    means: Numbers
    variances: Numbers
    taus: Numbers

    @property
    def tau(self) -> float:
        """Median of τ; its mean can be that of the prior's long tail."""
        return float(self.taus[np.searchsorted(self.weights.cumsum(), 0.5)])

    @property
    def mean(self) -> float:
        """Mean of μ, which is that of a new domain too."""
        return float(self.weights @ self.means)

    def below(self, value: float, variance: float = 0.0) -> float:
        """Return P(figure < value), of an estimate of it if that has a sampling variance."""
        scale = np.sqrt(self.variances + variance)
        return float(self.weights @ ndtr((value - self.means) / scale))

    def quantile(self, share: float, variance: float = 0.0) -> float:
        """Return the value that a share of new domains is below."""
        reach = np.sqrt((self.variances + variance).max()) * 40
        low, high = self.means.min() - reach, self.means.max() + reach
        return float(brentq(lambda value: self.below(value, variance) - share, low, high))

    def mean_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the interval that holds the mean over domains with probability `level`."""
        mean = Predictive(self.weights, self.means, self.variances - self.taus**2, self.taus)
        return mean.interval(level)

    def interval(self, level: float = 0.95, variance: float = 0.0) -> tuple[float, float]:
        """Return the interval with equal tails that holds a new domain with probability `level`."""
        tail = (1 - level) / 2
        return self.quantile(tail, variance), self.quantile(1 - tail, variance)


def random_effects(estimates: Numbers, variances: Numbers) -> RandomEffects:
    """Return the random-effects model with τ² by restricted maximum likelihood.

    >>> found = random_effects(np.array([0.0, 1.0, 2.0]), np.full(3, 0.1))
    >>> round(found.mean, 3), round(found.tau**2, 3)  # the variance, less that of sampling
    (1.0, 0.9)
    """
    tau2 = reml(estimates, variances)
    weights = 1 / (tau2 + variances)
    mean = float(weights @ estimates / weights.sum())
    return RandomEffects(mean, float(weights.sum() ** -0.5), math.sqrt(tau2))


def reml(estimates: Numbers, variances: Numbers) -> float:
    """Return the τ² of the largest restricted likelihood."""
    estimates, variances = _checked(estimates, variances)

    def loss(tau2: float) -> float:
        return -float(_restricted(np.array([tau2]), estimates, variances)[0][0])

    # The likelihood falls beyond the largest squared deviation, and may have several maxima.
    grid = np.ptp(estimates) ** 2 * np.linspace(0, 1, 200) ** 2
    best = int(np.argmax(_restricted(grid, estimates, variances)[0]))
    if grid[-1] == 0:
        return 0.0
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = float(minimize_scalar(loss, bounds=(low, high), options={"xatol": 1e-10}).x)
    return found if loss(found) < loss(0.0) else 0.0


def paule_mandel(estimates: Numbers, variances: Numbers) -> float:
    """Return the τ² at which Σ wᵢ (yᵢ − μ̂)² is its expectation k − 1; a check of `reml`."""
    estimates, variances = _checked(estimates, variances)

    def excess(tau2: float) -> float:
        weights = 1 / (tau2 + variances)
        mean = weights @ estimates / weights.sum()
        return float(weights @ (estimates - mean) ** 2) - (len(estimates) - 1)

    if excess(0.0) <= 0:
        return 0.0
    # Beyond the sum of squares, each weight is less than its inverse.
    return float(brentq(excess, 0.0, float(np.sum((estimates - estimates.mean()) ** 2))))


def t_interval(estimates: Numbers, variances: Numbers, level: float = 0.95) -> tuple[float, float]:
    """Return the prediction interval μ̂ ± t √(τ² + s.e.²) that takes the REML τ² for the truth.

    Student's t has k − 1 degrees of freedom: where sampling errors are negligible this is the exact
    interval for the next of k normal figures.  (Higgins et al. take k − 2, and have none for two.)
    """
    found = random_effects(estimates, variances)
    tail = float(student.ppf((1 + level) / 2, len(estimates) - 1))
    reach = tail * math.hypot(found.tau, found.standard_error)
    return found.mean - reach, found.mean + reach


def prior(variances: Numbers) -> tuple[Numbers, Numbers]:
    """Return values of τ and their prior weights, which sum to 1.

    With a² = 2s² and τ = a sinh u, dτ / √(a² + τ²) = du: equal steps of u have equal weights, but
    for the factor that falls beyond `LARGEST`.
    """
    scale = math.sqrt(FLAT / float(np.mean(1 / variances)))
    end = math.asinh(LAST * LARGEST / scale)
    taus = scale * np.sinh(end * (np.arange(GRID) + 0.5) / GRID)
    weights = 1 / (1 + (taus / LARGEST) ** 2)
    return taus, weights / weights.sum()


def predictive(estimates: Numbers, variances: Numbers) -> Predictive:
    """Return the distribution of a new domain's true figure, averaged over τ."""
    estimates, variances = _checked(estimates, variances)
    taus, weights = prior(variances)
    log_likelihood, means, errors = _restricted(taus**2, estimates, variances)
    weights = weights * np.exp(log_likelihood - log_likelihood.max())
    return Predictive(weights / weights.sum(), means, taus**2 + errors, taus)


def outlier_p_values(estimates: Numbers, variances: Numbers) -> Numbers:
    """Return for each domain how surprising it is after all others: two-sided, times k.

    The figure is compared with the predictive distribution of the others, with its own sampling
    variance added.  The factor k corrects for looking at every domain (Bonferroni).
    """
    estimates, variances = _checked(estimates, variances)
    k = len(estimates)
    if k < 3:
        return np.ones(k)
    found = []
    for i in range(k):
        others = np.arange(k) != i
        below = predictive(estimates[others], variances[others]).below(estimates[i], variances[i])
        found.append(min(1.0, 2 * k * min(below, 1 - below)))
    return np.array(found)


def _restricted(
    tau2: Numbers, estimates: Numbers, variances: Numbers
) -> tuple[Numbers, Numbers, Numbers]:
    """Return the restricted log-likelihood, μ̂ and its variance for each τ².

    The log-likelihood is ½ Σ log wᵢ − ½ log Σ wᵢ − ½ Σ wᵢ (yᵢ − μ̂)², up to a constant.
    """
    weights = 1 / (tau2[:, None] + variances)
    total = weights.sum(axis=1)
    means = weights @ estimates / total
    squares = (weights * (estimates - means[:, None]) ** 2).sum(axis=1)
    return (np.log(weights).sum(axis=1) - np.log(total) - squares) / 2, means, 1 / total


def _checked(estimates: Numbers, variances: Numbers) -> tuple[Numbers, Numbers]:
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
