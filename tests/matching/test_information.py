"""What matching says of the information on the domain, against integrals of the densities."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from _internals import matching_information
from scipy import integrate

from shiftproof import pdm


def points(seed: int, gaps: tuple[float, ...], size: int = 12) -> torch.Tensor:
    x = torch.randn(len(gaps), size, 1, dtype=torch.float64, generator=torch.manual_seed(seed))
    return x + torch.tensor(gaps, dtype=torch.float64).view(-1, 1, 1)


def kernel_information(x: torch.Tensor) -> float:
    """I(x;D) of the domains' density estimates, in one dimension, by quadrature."""
    domains = x[..., 0].numpy()
    h = domains.std() * domains.shape[1] ** -0.2
    grid = np.linspace(domains.min() - 8 * h, domains.max() + 8 * h, 4001)
    kernels = np.exp(-((grid - domains[..., None]) ** 2) / (2 * h**2)) / (h * np.sqrt(2 * np.pi))
    density = kernels.mean(axis=1) + 1e-300
    terms = density * np.log(density / density.mean(axis=0))
    return float(integrate.simpson(terms.mean(axis=0), x=grid))


@pytest.mark.parametrize("gaps", [(0, 0), (0, 0.5), (0, 2), (0, 1, 3), (5,)])
def test_it_bounds_the_information_of_density_estimates(gaps):
    for seed in range(5):
        x = points(seed, gaps)
        assert kernel_information(x) <= matching_information(x).item() + 1e-9


def test_it_is_pdm_in_units_of_the_bandwidth():
    x = points(0, (0, 1))
    variance = x.numpy().var()
    expected = pdm(x).item() / (2 * variance * 12 ** (-2 / 5))
    assert matching_information(x).item() == pytest.approx(expected, rel=1e-12)


def test_dimensions_count_alike_whatever_their_scale():
    x = torch.cat([points(0, (0, 1)), 1e6 * points(1, (0, 2)), torch.zeros(2, 12, 1)], dim=-1)
    alone = [matching_information(x[..., k : k + 1]) for k in range(3)]
    assert alone[2] == 0
    torch.testing.assert_close(matching_information(x), torch.stack(alone).mean())


@pytest.mark.parametrize("domains", [2, 3])
def test_no_dimension_tells_more_than_the_number_of_domains(domains):
    x = points(0, tuple(100.0 * k for k in range(domains)))
    assert matching_information(x).item() == pytest.approx(np.log(domains))


def test_pdm_says_nothing_of_correlations():
    """Two Gaussians with correlations ±ρ: equal marginals, and KL = 2ρ²/(1 − ρ²)."""
    rng = np.random.default_rng(0)
    covariances = [np.array([[1, sign * 0.95], [sign * 0.95, 1]]) for sign in (1, -1)]
    draws = [rng.multivariate_normal([0, 0], c, size=5000) for c in covariances]
    x = torch.from_numpy(np.stack(draws))
    assert pdm(x).item() < 0.001
    assert matching_information(x).item() < 0.02
    kl = (np.trace(np.linalg.solve(covariances[1], covariances[0])) - 2) / 2
    assert kl == pytest.approx(2 * 0.95**2 / (1 - 0.95**2))
    assert kl == pytest.approx(18.5, abs=0.05)
