"""Theorem IV.1, built and measured."""

from __future__ import annotations

import math

import numpy as np
import pytest
from _internals import InvalidValue
from scipy import integrate, stats

from shiftproof.theory import environments_blind_between, indistinguishable_environments


def batch(points: int, dimensions: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.3, 2.0, size=(points, dimensions))


def log_likelihoods(covariances: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return log p(S = points | D = d) for each d."""
    _, logarithms = np.linalg.slogdet(2 * np.pi * covariances)
    squares = np.einsum("bi,dij,bj->d", points, np.linalg.inv(covariances), points)
    return -(len(points) * logarithms + squares) / 2


def divergences(covariances: np.ndarray) -> np.ndarray:
    """Return KL(N(0, Σ_d) ‖ N(0, Σ_e)) for all pairs [d, e]."""
    traces = np.einsum("eij,dji->de", np.linalg.inv(covariances), covariances)
    _, logarithms = np.linalg.slogdet(covariances)
    return (traces - covariances.shape[1] + logarithms[None, :] - logarithms[:, None]) / 2


SIZES = [(n, b) for b in (1, 2, 5, 16) for n in (b + 2, b + 3, 3 * b + 5)]


@pytest.mark.parametrize(("n", "b"), SIZES)
def test_theorem_IV_1_a_batch_cannot_tell_environments_apart(n: int, b: int) -> None:
    points = batch(b, n, seed=n)
    found = indistinguishable_environments(points, environments=5, stretch=10.0)
    assert found.shape == (5, n, n)
    assert (np.linalg.eigvalsh(found) > 0).all()
    # SciPy's density, point by point
    by_point = [
        stats.multivariate_normal(cov=covariance).logpdf(points).sum() for covariance in found
    ]
    assert log_likelihoods(found, points) == pytest.approx(by_point, rel=1e-9)
    assert by_point == pytest.approx([by_point[0]] * 5, rel=1e-9)
    # … and yet they are far apart, by the formula of the docstring.
    angles = np.arange(5) * math.pi / 10
    apart = 0.5 * (10 - 0.1) ** 2 * np.sin(np.subtract.outer(angles, angles)) ** 2
    assert divergences(found) == pytest.approx(apart, rel=1e-6, abs=1e-9)
    assert divergences(found)[0, 1:].min() > 4


def test_theorem_IV_1_new_points_do_tell_them_apart() -> None:
    """The environments differ where the batch was not."""
    points = batch(3, 6, seed=0)
    found = indistinguishable_environments(points, environments=2)
    new = np.random.default_rng(1).multivariate_normal(np.zeros(6), found[0], 200)
    likelihoods = log_likelihoods(found, new)
    assert likelihoods[0] - likelihoods[1] > 200


def test_theorem_IV_1_holds_for_degenerate_batches() -> None:
    points = np.array([[1.0, 2, 3, 4, 5], [2, 4, 6, 8, 10], [0, 0, 0, 0, 0]])
    found = indistinguishable_environments(points, environments=4)
    likelihoods = log_likelihoods(found, points)
    assert likelihoods == pytest.approx([likelihoods[0]] * 4, rel=1e-9)


@pytest.mark.parametrize("excess", [1, 0, -1])
def test_theorem_IV_1_needs_two_free_dimensions(excess: int) -> None:
    with pytest.raises(InvalidValue, match="3 points need more than 4 dimensions"):
        indistinguishable_environments(batch(3, 3 + excess, seed=0))


def test_theorem_IV_1_density_as_printed_is_no_density() -> None:
    """exp(−½ xᵀΣx) / √((2π)ⁿ|Σ|) has the mass 1/|Σ|: the exponent needs Σ⁻¹."""
    variance = 4.0
    mass, _ = integrate.quad(
        lambda x: math.exp(-variance * x**2 / 2) / math.sqrt(2 * math.pi * variance), -20, 20
    )
    assert mass == pytest.approx(1 / variance)


@pytest.mark.parametrize(("n", "b"), [(2 * b + 2, b) for b in (1, 2, 5)] + [(40, 5)])
def test_theorem_IV_1_environments_cannot_tell_batches_apart(n: int, b: int) -> None:
    first, second = batch(b, n, seed=1), 1.5 * batch(b, n, seed=2)
    found = environments_blind_between(first, second, environments=4)
    assert (np.linalg.eigvalsh(found) > 0).all()
    assert log_likelihoods(found, first) == pytest.approx(log_likelihoods(found, second), rel=1e-9)
    apart = divergences(found)[~np.eye(4, dtype=bool)]
    assert apart.min() > 0.05 * n


def test_theorem_IV_1_second_part_does_not_need_many_dimensions() -> None:
    """Three points in two dimensions, as long as neither batch dominates."""
    first = np.array([[3.0, 0], [1, 0.5], [2, -0.5]])
    second = first[:, ::-1]
    found = environments_blind_between(first, second)
    assert log_likelihoods(found, first) == pytest.approx(log_likelihoods(found, second))
    same = environments_blind_between(first, -first)  # Δ = 0: any environment serves
    assert log_likelihoods(same, first) == pytest.approx(log_likelihoods(same, -first))


def test_theorem_IV_1_second_part_as_proved_fails_for_a_dominating_batch() -> None:
    """s₂ = s₁/2 in plenty of dimensions: every Gaussian with mean 0 prefers s₂."""
    n, b = 12, 3
    first = batch(b, n, seed=3)
    rng = np.random.default_rng(4)
    for _ in range(200):
        root = rng.normal(size=(n, n)) * rng.gamma(0.3, size=n)
        covariance = root @ root.T + 1e-3 * np.eye(n)
        law = stats.multivariate_normal(cov=covariance)
        assert law.logpdf(first).sum() < law.logpdf(first / 2).sum()
    with pytest.raises(InvalidValue, match="no Gaussian with mean 0"):
        environments_blind_between(first, first / 2)


@pytest.mark.parametrize("points", [np.zeros(3), np.zeros((0, 3)), np.full((1, 4), np.nan)])
def test_what_is_no_batch_is_refused(points: np.ndarray) -> None:
    with pytest.raises(InvalidValue, match="finite numbers"):
        indistinguishable_environments(points)


def test_other_impossible_requests_are_refused() -> None:
    with pytest.raises(InvalidValue, match="stretch"):
        indistinguishable_environments(batch(1, 4, 0), stretch=1.0)
    with pytest.raises(InvalidValue, match="number of environments"):
        indistinguishable_environments(batch(1, 4, 0), environments=0)
    with pytest.raises(InvalidValue, match="same shape"):
        environments_blind_between(batch(1, 4, 0), batch(2, 4, 0))
