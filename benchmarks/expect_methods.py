"""Prediction intervals that `expect` was chosen among: coverage of many simulated sets at once.

Each method says for each set of k estimates whether its interval of 95% holds the true figure of
one more domain, and whether, with the sampling error of that domain added, it holds the estimate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr
from scipy.stats import t as student

from benchmarks.random_effects import log_likelihood
from shiftproof.statistics.meta_analysis import Predictive, Profile, confidence_mixture, profile

LEVEL = 0.95
NORMAL = 1.959964
EXPECT = "confidence distribution (`expect`)"
# Grid size of τ for posteriors and REML: 0, then steps of equal ratio.
STEPS = 120


class Sets(NamedTuple):
    """Estimates and variances [sets, k], and the true figure, estimate and variance of one more."""

    estimates: np.ndarray
    variances: np.ndarray
    figure: np.ndarray
    estimate: np.ndarray
    variance: np.ndarray


class Held(NamedTuple):
    """Whether the true figure, and the estimate, of one more domain are inside: [sets] each."""

    figure: np.ndarray
    estimate: np.ndarray


def mixture_held(mixture: Predictive, sets: Sets) -> Held:
    """Return what the equal-tailed interval of each mixture contains."""
    figure = mixture.shares_below(sets.figure[:, None], np.zeros(1))
    estimate = mixture.shares_below(sets.estimate[:, None], sets.variance[:, None])
    return Held(*(np.abs(share - 0.5) <= LEVEL / 2 for share in (figure, estimate)))


def widths(mixture: Predictive) -> np.ndarray:
    """Return the widths of the 95% intervals, by bisection."""
    bounds = []
    for share in ((1 - LEVEL) / 2, (1 + LEVEL) / 2):
        reach = 40 * np.sqrt(mixture.variances.max(axis=1))
        low, high = mixture.means.min(axis=1) - reach, mixture.means.max(axis=1) + reach
        for _ in range(60):
            middle = (low + high) / 2
            above = mixture.shares_below(middle[:, None], np.zeros(1)) > share
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        bounds.append(middle)
    found: np.ndarray = bounds[1] - bounds[0]
    return found


def expect_mixture(sets: Sets) -> Predictive:
    """Return the mixtures of `expect` on a coarser grid of τ; bounds change by a thousandth."""
    return confidence_mixture(sets.estimates, sets.variances, STEPS)


def held_by_all(sets: Sets) -> dict[str, Held]:
    """Return what the interval of each method contains."""
    taus = np.concatenate([[0.0], np.geomspace(1e-3, 60.0, STEPS - 1)])
    given = np.tile(taus**2, (len(sets.estimates), 1)), sets.estimates, sets.variances
    own, likelihoods = profile(*given), log_likelihood(*given)
    found = {EXPECT: mixture_held(expect_mixture(sets), sets)}
    normals = _normals(taus, own, sets)
    likelihood = np.exp(likelihoods - likelihoods.max(axis=1, keepdims=True)) * np.gradient(taus)
    for name, density in PRIORS.items():
        weights = likelihood * density(taus, sets.variances)  # the posterior of τ
        weights /= weights.sum(axis=1, keepdims=True)
        found[name] = Held(
            *(np.abs((weights * each).sum(axis=1) - 0.5) <= LEVEL / 2 for each in normals)
        )
    for name, (lost, knapp) in PLUGGED_IN.items():
        found[name] = _plugged_in(taus, own, likelihoods, sets, lost, knapp)
    return found


def _normals(taus: np.ndarray, own: Profile, sets: Sets) -> tuple[np.ndarray, np.ndarray]:
    """Return P(figure below the new domain's | τ) [sets, g], and the same for the estimate."""
    variances = taus**2 + own.errors
    return (
        ndtr((sets.figure[:, None] - own.means) / np.sqrt(variances)),
        ndtr((sets.estimate[:, None] - own.means) / np.sqrt(variances + sets.variance[:, None])),
    )


def _plugged_in(
    taus: np.ndarray, own: Profile, likelihoods: np.ndarray, sets: Sets, lost: int, knapp: bool
) -> Held:
    """Return what μ̂ ± t √(τ² + s.e.²) contains, with REML's τ² and t of k − `lost` degrees.

    Hartung and Knapp's s.e.² is 1 / Σw times Q / (k − 1).
    """
    k = sets.estimates.shape[1]
    best = likelihoods.argmax(axis=1)[:, None]
    mean, error, squares = (
        np.take_along_axis(each, best, axis=1)[:, 0]
        for each in (own.means, own.errors, own.squares)
    )
    error = error * squares / (k - 1) if knapp else error
    half = student.ppf((1 + LEVEL) / 2, k - lost) ** 2 * (taus[best[:, 0]] ** 2 + error)
    wider = half + NORMAL**2 * sets.variance
    return Held((sets.figure - mean) ** 2 <= half, (sets.estimate - mean) ** 2 <= wider)


def _half_normal(scale: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    return lambda taus, variances: np.exp(-((taus / scale) ** 2) / 2)


def _sampling_variance(variances: np.ndarray) -> np.ndarray:
    found: np.ndarray = 1 / np.mean(1 / variances, axis=1, keepdims=True)
    return found


def _flat_then_logarithmic(taus: np.ndarray, variances: np.ndarray) -> np.ndarray:
    found: np.ndarray = (2 * _sampling_variance(variances) + taus**2) ** -0.5 / (1 + taus**2 / 25)
    return found


def _dumouchel(taus: np.ndarray, variances: np.ndarray) -> np.ndarray:
    error = np.sqrt(_sampling_variance(variances))
    found: np.ndarray = error / (error + taus) ** 2
    return found


# Densities of τ, as functions of τ [g] and of the sampling variances [sets, k].
PRIORS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "posterior, τ half-normal 0.5": _half_normal(0.5),
    "posterior, τ half-normal 1": _half_normal(1.0),
    "posterior, τ flat": lambda taus, variances: (taus <= 10).astype(float),
    "posterior, τ flat to s, then flat in log τ": _flat_then_logarithmic,
    "posterior, DuMouchel's prior": _dumouchel,
}
# Degrees of freedom subtracted from k, and whether to use Hartung and Knapp's s.e.
PLUGGED_IN = {
    "REML, t(k − 2) (Higgins et al.)": (2, False),
    "REML, t(k − 1)": (1, False),
    "REML, Hartung–Knapp, t(k − 2)": (2, True),
    "REML, Hartung–Knapp, t(k − 1)": (1, True),
}
