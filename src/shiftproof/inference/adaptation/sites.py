"""The amount by which class shares are corrected, learnt with each training domain as a new site.

The probabilities of a new site are shifted until each class has its estimated share on average
(`matching_shares`).  EM (`label_shift`) gives an estimate π̂ that is correct under label shift.
The training domains show whether it is: each is treated as a new site, with calibration from the
others and π̂ from its rows without labels.

**Label shift is not contradicted** if the errors of π̂ on training domains are no larger than those
of resampled rows.  With V_s the covariance of π̂ over resampled rows of site s of K sites, and e_s
its error, the mean of |e_s|² / tr V_s has expectation 1 and approximately the distribution of
χ²_f / f, f = K² / Σ_s [tr(V_s²) / (tr V_s)²] (Satterthwaite, 1946).  Unless this is rejected at 5%,
the shares are the mean m of the model's own probabilities, moved towards π̂ by the fraction
1 − τ² / |π̂ − m|², if positive (James and Stein, 1961), with τ² the sampling variance of π̂ at the
new site.

**Otherwise** three estimates of the shares are combined, those of training π₀, m, and π̂:

    π = π₀ + α (m − π₀) + β (π̂ − π₀).

α = 1 and β = 0 is no correction.  The pair with the lowest mean log loss over training domains is
selected, and shrunk towards no correction by the factor K / (K + 1) for K domains, as if one more
domain had needed none.  A new site may differ more than any training domain did.  τ² then includes
the mean squared error of π̂ on training domains, as far as resampling their rows does not explain
it.  If the distance |π̂ − π|² is too large to be an error of π̂, by an F test of its ratio to τ² at
5%, π moves towards π̂ in the same way.  The degrees of freedom of τ² are again Satterthwaite's: K
for the added part, and many for the sampling variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shiftproof.inference.adaptation.held_out import HeldOut, class_shares
from shiftproof.inference.adaptation.label_shift import SMALLEST, em_shares, weighted
from shiftproof.inference.adaptation.label_shift_test import MANY, p_value, score_bins
from shiftproof.inference.adaptation.matching_shares import with_shares
from shiftproof.learners.calibration_scores import fitted_slope

# Level of the tests, divided among several tests of one site (Bonferroni).
LEVEL = 0.05
# Candidate values of α and β, and the pair that means no correction.
ALPHAS, BETAS = np.linspace(0, 2, 9), np.linspace(0, 1, 6)
NONE = np.array([1.0, 0.0])
# Most rows of a domain used to select α and β; bootstrap samples for the sampling variance.
MOST_ROWS, DRAWS = 1000, 20


def target_shares(
    training: np.ndarray, mean: np.ndarray, em: np.ndarray, factors: np.ndarray
) -> np.ndarray:
    """Return π₀ + α (m − π₀) + β (π̂ − π₀), within the simplex.

    >>> third = np.array([0.5, 0.5]), np.array([0.6, 0.4]), np.array([0.9, 0.1])
    >>> target_shares(*third, np.array([1.0, 0.5])).round(2).tolist()
    [0.8, 0.2]
    """
    alpha, beta = factors
    found = np.maximum(training + alpha * (mean - training) + beta * (em - training), 0)
    shares: np.ndarray = found / found.sum()
    return shares


def moved_to_em(
    usual: np.ndarray, em: np.ndarray, noise: float, variance: float, domains: int
) -> np.ndarray:
    """Return shares moved from the usual estimate towards the EM estimate, shrunk by its error τ².

    τ² is ``noise``, a mean over ``domains`` domains, plus the sampling ``variance``.  If there is
    noise, the two estimates must also differ significantly.

    >>> moved_to_em(np.array([0.5, 0.5]), np.array([0.9, 0.1]), 0.0, 0.0032, 5).round(3).tolist()
    [0.896, 0.104]
    >>> moved_to_em(np.array([0.5, 0.5]), np.array([0.6, 0.4]), 0.01, 0.0, 5).tolist()
    [0.5, 0.5]
    """
    from scipy.stats import f as fisher  # type: ignore[import-untyped]

    tau2, distance = noise + variance, float(((em - usual) ** 2).sum())
    if noise > 0:
        freedom = domains * (tau2 / noise) ** 2
        if distance <= float(fisher.isf(LEVEL, 1, min(freedom, MANY))) * tau2:
            return usual
    share = 1 - tau2 / distance if distance > tau2 else 0.0
    moved: np.ndarray = usual + share * (em - usual)
    return moved


def sampling_covariance(log_likelihood: np.ndarray, seed: int, draws: int = DRAWS) -> np.ndarray:
    """Return the covariance [c, c] of the EM estimate over resampled rows.

    The squared share of one row, 1/n², is added to the diagonal as a lower bound.
    """
    n, rng = len(log_likelihood), np.random.default_rng(seed)
    found = [em_shares(log_likelihood[rng.integers(n, size=n)]) for _ in range(draws)]
    return np.atleast_2d(np.cov(found, rowvar=False)) + np.eye(log_likelihood.shape[1]) / n**2


@dataclass(frozen=True)
class Site:
    """A training domain treated as a new site.

    ``predicted`` [n, c] and ``y`` [n] are the probabilities and classes of its rows, ``training``
    the shares π₀ of the other domains, ``em`` the estimate with its sampling ``covariance``, and
    ``score_p`` the p-value of label shift from its scores.  ``slope`` is its calibration slope with
    its variance.  Only ``y`` and ``slope`` use its labels.
    """

    predicted: np.ndarray
    y: np.ndarray
    training: np.ndarray
    em: np.ndarray
    covariance: np.ndarray
    score_p: float
    slope: tuple[float, float] | None

    @property
    def shares(self) -> np.ndarray:
        """The true class shares."""
        return class_shares(self.y, self.predicted.shape[1])

    @property
    def variance(self) -> float:
        """The sampling variance of the EM estimate, summed over classes."""
        return float(np.trace(self.covariance))

    @property
    def squared_error(self) -> float:
        """The squared error of the EM estimate, summed over classes."""
        return float(((self.em - self.shares) ** 2).sum())

    @property
    def confidence(self) -> float:
        """The mean probability of the most probable class."""
        return float(self.predicted.max(axis=1).mean())

    @cached_property
    def losses(self) -> np.ndarray:
        """The mean log loss after correction with each pair of α and β, [pairs]."""
        mean, y, p = self.predicted.mean(axis=0), self.y[:MOST_ROWS], self.predicted[:MOST_ROWS]
        targets = [target_shares(self.training, mean, self.em, factors) for factors in PAIRS]
        return np.array([log_losses(with_shares(p, shares), y).mean() for shares in targets])


def passes(*p_values: float) -> bool:
    """Return whether no test of one site rejects, at the family-wise level `LEVEL`.

    >>> passes(0.03), passes(0.03, 0.8), passes(0.02, 0.8)
    (False, True, False)
    """
    return min(p_values) >= LEVEL / len(p_values)


PAIRS = np.array([(alpha, beta) for alpha in ALPHAS for beta in BETAS])


def log_losses(probabilities: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the log loss of each row."""
    own = probabilities[np.arange(len(y)), y]
    found: np.ndarray = -np.log(np.maximum(own, SMALLEST))
    return found


def site_of(held_out: HeldOut, domain: int, seed: int) -> Site:
    """Return a training domain treated as a new site."""
    rows = held_out.domain == domain
    slope, bias = held_out.calibrated(~rows)
    log_likelihood = slope * held_out.ratios + bias
    own, y = log_likelihood[rows], held_out.y[rows]
    order = np.random.default_rng(seed).permutation(len(y))  # the first are a random sample
    fitted = fitted_slope(weighted(own, class_shares(y, held_out.classes)), y)
    return Site(
        held_out.predicted[rows][order],
        y[order],
        held_out.mean_shares(~rows),
        em_shares(own),
        sampling_covariance(own, seed),
        p_value(score_bins(held_out, log_likelihood, ~rows), own),
        None if fitted is None else (fitted.value, fitted.variance),
    )


def label_shift_p(sites: Sequence[Site]) -> float:
    """Return the p-value of the hypothesis that resampling explains the errors of π̂."""
    from scipy.stats import chi2

    shares = [float((site.covariance**2).sum()) / site.variance**2 for site in sites]
    freedom = len(sites) ** 2 / sum(shares)
    mean = np.mean([site.squared_error / site.variance for site in sites])
    return float(chi2.sf(freedom * mean, freedom))


def learnt(sites: Sequence[Site]) -> tuple[np.ndarray, float]:
    """Return α and β, and the mean squared error of π̂ beyond sampling, learnt from sites [k]."""
    if label_shift_p(sites) >= LEVEL:
        return NONE, 0.0
    best = PAIRS[np.mean([site.losses for site in sites], axis=0).argmin()]
    factors = NONE + len(sites) / (len(sites) + 1) * (best - NONE)
    noise = np.mean([site.squared_error - site.variance for site in sites])
    return factors, max(float(noise), 0.0)
