"""PDM and density estimates (Theorems IV.2, IV.3); more in tests/matching/test_pdm.py."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy import integrate, optimize, stats

from shiftproof import pdm
from shiftproof.theory import kernel_distance, kernel_divergence, kernel_information

GRID = np.linspace(-14, 16, 6001)


def penalty(*groups: np.ndarray, order: int) -> float:
    return float(pdm(torch.from_numpy(np.stack(groups)[:, :, None]), order))  # type: ignore[arg-type]


def density(points: np.ndarray, bandwidth: float) -> np.ndarray:
    return np.asarray(stats.norm.pdf(GRID[:, None], points, bandwidth).mean(axis=1))


def divergence(p: np.ndarray, q: np.ndarray) -> float:
    seen = p > 1e-100  # the rest weighs nothing
    terms = np.zeros_like(p)
    terms[seen] = p[seen] * np.log(p[seen] / q[seen])
    return float(integrate.trapezoid(terms, GRID))


def batches(seed: int, number: int, size: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(rng.normal(), rng.uniform(0.3, 1.5), size=size) for _ in range(number)]


@pytest.mark.parametrize("bandwidth", [0.4, 1.5])
def test_theorem_IV_2_any_pairing_bounds_the_distance_of_density_estimates(
    bandwidth: float,
) -> None:
    for seed in range(4):
        x, y = batches(seed, 2, 4)
        p, q = density(x, bandwidth), density(y, bandwidth)
        kl = divergence(p, q)
        cumulated = integrate.cumulative_trapezoid(p - q, GRID, initial=0)
        transport = integrate.trapezoid(np.abs(cumulated), GRID)
        for order in itertools.permutations(range(4)):
            paired = y[list(order)]
            assert kl <= np.mean((x - paired) ** 2) / (2 * bandwidth**2) + 1e-9
            assert transport <= np.mean(np.abs(x - paired)) + 1e-6
        assert kl <= kernel_divergence(penalty(x, y, order=2), bandwidth).value + 1e-9
        assert transport <= kernel_distance(penalty(x, y, order=1)).value + 1e-6


def test_theorem_IV_2_is_reached_by_single_points() -> None:
    x, y = np.array([0.2]), np.array([1.4])
    kl = divergence(density(x, 0.7), density(y, 0.7))
    assert kernel_divergence(penalty(x, y, order=2), 0.7).value == pytest.approx(kl)
    assert kernel_distance(penalty(x, y, order=1)).value == pytest.approx(1.2)


@pytest.mark.parametrize("domains", [2, 3, 5])
def test_theorem_IV_2_bounds_the_information_of_any_number_of_domains(domains: int) -> None:
    for seed, bandwidth in itertools.product(range(5), (0.4, 1.5)):
        groups = batches(seed, domains, 6)
        densities = [density(group, bandwidth) for group in groups]
        mixture = np.mean(densities, axis=0)
        actual = np.mean([divergence(p, mixture) for p in densities])
        bound = kernel_information(penalty(*groups, order=2), bandwidth).value
        assert actual <= bound + 1e-9


def test_theorem_IV_2_information_is_nearly_reached_by_a_small_shift() -> None:
    """Two single points 2a apart: the information is a²/(2σ²) to first order, as bounded."""
    x, y = np.array([0.95]), np.array([1.05])
    densities = [density(group, 1.0) for group in (x, y)]
    actual = np.mean([divergence(p, np.mean(densities, axis=0)) for p in densities])
    bound = kernel_information(penalty(x, y, order=2), 1.0).value
    assert 1 <= bound / actual < 1.01


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("size", [1, 2, 7, 40])
def test_theorem_IV_3_sorting_is_the_best_pairing(size: int, order: int) -> None:
    """Against the optimal assignment, for both costs; ties included."""
    for seed in range(5):
        x, y = batches(seed, 2, size)
        if seed == 4:
            x, y = np.round(x), np.round(y)
        costs = np.abs(np.subtract.outer(x, y)) ** order
        best = costs[optimize.linear_sum_assignment(costs)].mean()
        assert np.mean(np.abs(np.sort(x) - np.sort(y)) ** order) == pytest.approx(best)
        assert 2**order * penalty(x, y, order=order) == pytest.approx(best)
        worst = np.mean(np.abs(np.sort(x) - np.sort(y)[::-1]) ** order)
        assert best <= worst + 1e-12
