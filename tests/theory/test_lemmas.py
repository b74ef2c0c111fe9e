"""The lemmas, on Gaussians, coins and random tables."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, stats

from shiftproof.information import mutual_information
from shiftproof.theory import (
    deviation,
    expectation_gap,
    exponential_square,
    second_moment,
    variation,
)

ROUNDING = 1e-12


def random_distribution(rng: np.random.Generator, *shape: int) -> np.ndarray:
    values = rng.gamma(0.5, size=shape) + 1e-12
    return values / values.sum()


def leaning(strength: float) -> np.ndarray:
    """Two fair bits that agree with probability (1 + strength)/2."""
    return np.array([[1 + strength, 1 - strength], [1 - strength, 1 + strength]]) / 4


def test_lemma_A_6_bounds_what_dependence_does_to_an_expectation() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        joint = random_distribution(rng, 3, 4)
        values = rng.uniform(size=(3, 4))  # in [0, 1], hence ½-sub-Gaussian
        x, y = joint.sum(axis=1), joint.sum(axis=0)
        shared = mutual_information(joint, [0], [1])
        centred = values - (values @ y)[:, None]
        moved = abs((joint * values).sum() - x @ values @ y)
        assert moved <= expectation_gap(shared, 0.5).value + ROUNDING
        assert (joint * centred**2).sum() <= second_moment(shared, 0.5).value
        for gap in np.abs(centred).ravel():
            reached = joint[np.abs(centred) >= gap].sum()
            assert reached <= deviation(shared, 0.5).chance(gap) + ROUNDING


def test_lemma_A_6_is_nearly_reached_by_leaning_bits() -> None:
    for strength in (0.01, 0.1):
        shared = mutual_information(leaning(strength), [0], [1])
        moved = (leaning(strength) * np.eye(2)).sum() - 0.5
        assert 1 <= expectation_gap(shared, 0.5).value / moved < 1 + strength**2


def test_lemma_A_7_bounds_the_exponential_of_a_square() -> None:
    for sigma in (0.5, 1.0, 3.0):
        for share in (0.0, 0.01, 0.1, 0.2, 0.2499):
            rate = share / sigma**2
            bound = exponential_square(rate, sigma).value
            gaussian = 1 / math.sqrt(1 - 2 * share)
            sign = math.exp(share)  # ± σ with equal chance
            assert max(gaussian, sign) <= bound
    tightest = exponential_square(0.2499, 1.0).value / (1 - 2 * 0.2499) ** -0.5
    assert tightest == pytest.approx(3 / math.sqrt(2), abs=0.01)


def test_lemma_A_8_the_divergence_is_the_largest_of_all_contrasts() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        p, q = random_distribution(rng, 5), random_distribution(rng, 5)
        divergence = stats.entropy(p, q)
        best = np.log(p / q)
        assert p @ best - math.log(q @ np.exp(best)) == pytest.approx(divergence)
        for _ in range(50):
            other = best + rng.normal(size=5)
            assert p @ other - math.log(q @ np.exp(other)) <= divergence


def test_lemma_A_9_bounds_moves_of_expectations() -> None:
    """f(x) = x, P = N(0, σ²), Q = N(μ, τ²): the mean is exact for τ = σ."""
    for sigma in (0.5, 2.0):
        for mu in (0.0, 0.3, 5.0):
            for tau in (0.1, 0.5, 1.0, 3.0):
                divergence = math.log(sigma / tau) + (tau**2 + mu**2) / (2 * sigma**2) - 0.5
                assert mu <= expectation_gap(max(divergence, 0), sigma).value + ROUNDING
                assert mu**2 + tau**2 <= second_moment(max(divergence, 0), sigma).value
                tail = deviation(max(divergence, 0), sigma)
                for gap in (0.1, 1.0, 4.0, 10.0):
                    outside = stats.norm.sf(gap, mu, tau) + stats.norm.cdf(-gap, mu, tau)
                    assert outside <= tail.chance(gap)
    exact = expectation_gap(0.3**2 / (2 * 2.0**2), 2.0).value
    assert exact == pytest.approx(0.3)
    far = second_moment(50.0**2 / 2, 1.0).value / (50.0**2 + 1)
    assert 1 < far < 2.01


def test_lemma_A_10_transport_is_the_largest_difference_of_lipschitz_functions() -> None:
    """The dual as a linear programme, against SciPy's distance by quantiles."""
    rng = np.random.default_rng(2)
    for _ in range(10):
        places = np.sort(rng.normal(size=6))
        p, q = random_distribution(rng, 6), random_distribution(rng, 6)
        steps = np.diff(np.eye(6), axis=0)
        limits = np.concatenate([np.diff(places), np.diff(places)])
        found = optimize.linprog(
            q - p, A_ub=np.concatenate([steps, -steps]), b_ub=limits, bounds=[(-50, 50)] * 6
        )
        assert -found.fun == pytest.approx(stats.wasserstein_distance(places, places, p, q))


def test_lemma_A_11_divergence_bounds_total_variation() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        p, q = random_distribution(rng, 4), random_distribution(rng, 4)
        assert np.abs(p - q).sum() / 2 <= variation(stats.entropy(q, p)).value
    for lean in (0.001, 0.05):
        divergence = stats.entropy([0.5 + lean, 0.5 - lean], [0.5, 0.5])
        assert 1 <= variation(divergence).value / lean < 1 + 2 * lean**2
