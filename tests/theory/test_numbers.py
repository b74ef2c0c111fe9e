"""Theorem III.5 and A.14 for numbers: a Gaussian regression family where all is known.

Y = w X + D + ε with X ~ N(0, 1), domains D ~ N(0, τ²) and noise ε ~ N(0, σ²); the predictor is w x.
Its error is D + ε.  Inputs do not shift, so I(Z;D) = I(Y;D|X) = ½ log(1 + τ²/σ²).  The absolute
error is a 1-Lipschitz function of a Gaussian of variance s² = τ² + σ², so it is s-sub-Gaussian, and
cut at M it lies in [0, M].  The squared error is not sub-Gaussian: the theorems do not apply to it.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from shiftproof.theory import target_gap, target_gap_independent

FAMILIES = [(0.1, 1.0), (0.5, 1.0), (2.0, 1.0), (1.0, 0.2)]  # τ, σ
GRID = stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)  # equally likely domains, in units of τ


def risks(spread: float, noise: float, cut: float = math.inf) -> tuple[np.ndarray, float]:
    """Return the risk min(|e|, M) of each domain of the grid, and that of the average domain."""

    def folded(mean: np.ndarray, deviation: float) -> np.ndarray:
        """Return E min(|e|, M) of e ~ N(mean, deviation²), as ∫₀ᴹ Pr{|e| > t} dt."""
        most = min(cut, float(np.abs(mean).max()) + 9 * deviation)
        t = np.linspace(0, most, 2001)[:, None]
        above = stats.norm.sf((t - mean) / deviation) + stats.norm.cdf((-t - mean) / deviation)
        found: np.ndarray = integrate.simpson(above, x=t[:, 0], axis=0)
        return found

    by_domain = folded(spread * GRID[::20], noise)
    average = folded(np.zeros(1), math.hypot(spread, noise))
    return by_domain, float(average[0])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("cut", [math.inf, 1.0])
def test_theorem_III_5_and_A_14_hold_for_absolute_errors(family, cut):
    spread, noise = family
    by_domain, average = risks(spread, noise, cut)
    assert by_domain.mean() == pytest.approx(average, abs=2e-3)  # the average domain is the mean
    shift = math.log1p((spread / noise) ** 2) / 2
    subgaussian = math.hypot(spread, noise) if cut == math.inf else cut / 2
    gaps = np.abs(by_domain - average)
    told = 0
    for bound in (target_gap(shift, subgaussian), target_gap_independent(shift, subgaussian, 1)):
        for gap in np.geomspace(1e-3, 10, 60):
            chance = bound.chance(gap)
            assert (gaps >= gap).mean() <= chance + 1e-9
            told += chance < 0.5
    assert told > 0  # the bounds say something


def test_the_information_matters():
    """Without any shift the bound would be 0, and domains do differ."""
    by_domain, average = risks(2.0, 1.0)
    without = target_gap(1e-6, math.hypot(2.0, 1.0))
    assert (np.abs(by_domain - average) >= 0.5).mean() > without.chance(0.5)


def test_the_absolute_error_is_subgaussian_and_the_squared_one_is_not():
    """log E exp(λ (ℓ − E ℓ)) ≤ λ² s²/2 for every λ, of |e| with s = 1; of e² it is infinite."""
    mean = math.sqrt(2 / math.pi)
    for strength in np.linspace(-6, 6, 49):
        # E exp(λ|e|) = 2 exp(λ²/2) Φ(λ)
        log_moment = math.log(2) + strength**2 / 2 + stats.norm.logcdf(strength)
        assert log_moment - strength * mean <= strength**2 / 2 + 1e-12
    # E exp(λ e²) = (1 − 2λ)^(−1/2) for λ < ½, and infinite above
    assert math.exp(0.4999**2 / 2 * 3) < (1 - 2 * 0.4999) ** -0.5
