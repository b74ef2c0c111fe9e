"""The kernel quantile against SciPy's root finder, and its derivative by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from _internals import kernel_quantile
from scipy.optimize import brentq
from scipy.stats import norm

POINTS = [[0.3, 1.1], [0.2, 0.9, 0.4], [2.0, -1.0, 0.5, 0.6], [1.0, 1.0, 1.0, 4.0, 9.0]]
LEVELS = [0.01, 0.5, 0.75, 0.99]


def bandwidth(x):
    return 1.06 * np.std(x, ddof=1) * len(x) ** -0.2


def inverted(x, level):
    """The quantile by SciPy's root finder on the kernel CDF."""
    h = bandwidth(x)
    far = 20 * h
    return brentq(
        lambda t: norm.cdf((t - np.array(x)) / h).mean() - level,
        min(x) - far, max(x) + far, xtol=1e-14,
    )  # fmt: skip


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("x", POINTS)
def test_inverts_the_kernel_distribution_function(x, level):
    found = kernel_quantile(torch.tensor(x, dtype=torch.float64), level)
    assert found.item() == pytest.approx(inverted(x, level), abs=2e-9)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("x", POINTS[:3])
def test_derivative_holds_the_share_between_the_extremes_constant(x, level):
    points = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(kernel_quantile(points, level), points)
    values, n, z = np.array(x), len(x), norm.ppf(level)
    low, high = values.min() + z * bandwidth(x), values.max() + z * bandwidth(x)
    share = (inverted(x, level) - low) / (high - low)
    by_bandwidth = (values - values.mean()) / ((n - 1) * values.std(ddof=1)) * 1.06 * n**-0.2 * z
    expected = (
        by_bandwidth + (1 - share) * (values == values.min()) + share * (values == values.max())
    )
    np.testing.assert_allclose(found.numpy(), expected, atol=2e-9)


def test_follows_shift_and_scale_and_grows_with_the_level():
    x = torch.tensor([0.1, 0.7, 0.4], dtype=torch.float64)
    levels = [0.05, 0.3, 0.5, 0.9]
    quantiles = [kernel_quantile(x, level).item() for level in levels]
    assert quantiles == sorted(quantiles)
    assert len(set(quantiles)) == len(levels)
    for level, quantile in zip(levels, quantiles, strict=True):
        moved = kernel_quantile(3 * x - 2, level).item()
        assert moved == pytest.approx(3 * quantile - 2, abs=1e-8)


def test_median_of_symmetric_points_is_their_centre():
    x = torch.tensor([-3.0, -1.0, 1.0, 3.0], dtype=torch.float64)
    assert kernel_quantile(x, 0.5).item() == pytest.approx(0, abs=2e-9)


def test_equal_points_are_their_own_quantile_with_a_finite_derivative():
    x = torch.full((3,), 0.5, dtype=torch.float64, requires_grad=True)
    quantile = kernel_quantile(x, 0.75)
    assert quantile.item() == 0.5
    (gradient,) = torch.autograd.grad(quantile, x)
    assert gradient.sum().item() == pytest.approx(1, abs=1e-9)
