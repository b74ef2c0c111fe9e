"""MMD against an explicit double loop over points."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from _internals import gaussian_kernels, mmd

WIDTHS = [10.0**exponent for exponent in range(-3, 4)]


def kernel(x, y):
    """One pair of points, by the definition."""
    return sum(
        math.exp(-gamma * sum((a - b) ** 2 for a, b in zip(x, y, strict=True))) for gamma in WIDTHS
    )


def by_loops(groups):
    def mean_kernel(xs, ys):
        return sum(kernel(x, y) for x in xs for y in ys) / (len(xs) * len(ys))

    distances = [
        mean_kernel(x, x) + mean_kernel(y, y) - 2 * mean_kernel(x, y)
        for x, y in combinations(groups, 2)
    ]
    return sum(distances) / len(distances)


@pytest.mark.parametrize(
    ("sizes", "dims"), [((5, 5), 3), ((4, 4, 4), 2), ((3,) * 4, 5), ((2, 7), 3), ((1, 4, 2), 1)]
)
def test_equals_a_double_loop_over_points(sizes, dims):
    rng = np.random.RandomState(sum(sizes))
    groups = [rng.randn(size, dims) + 0.5 * i for i, size in enumerate(sizes)]
    found = mmd([torch.from_numpy(group) for group in groups])
    assert found.item() == pytest.approx(by_loops(groups), rel=1e-10)


def test_two_points_at_a_known_distance():
    x, y = torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]])
    expected = 2 * (7 - sum(math.exp(-25 * gamma) for gamma in WIDTHS))
    assert mmd([x, y]).item() == pytest.approx(expected, rel=1e-6)


def test_is_a_squared_distance_zero_for_equal_samples():
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert mmd([x, x.flip(0)]).item() == pytest.approx(0, abs=1e-12)
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        y = torch.randn(3, 5, 2, generator=generator, dtype=torch.float64)
        assert mmd(y).item() > 0


def test_points_that_coincide_do_not_upset_the_kernel_or_its_derivative():
    generator = torch.Generator().manual_seed(2)
    # Far from the origin, rounding makes some squared distances of equal points negative.
    point = 1e3 * torch.rand(1, 50, generator=generator, dtype=torch.float64)
    x = (point * torch.ones(4, 1)).requires_grad_()
    values = gaussian_kernels(x, x)
    assert values.max().item() <= 7
    (gradient,) = torch.autograd.grad(mmd([x, x + 1]), x)
    assert gradient.isfinite().all()


def test_one_group_has_nothing_to_be_compared_with():
    x = torch.randn(1, 4, 2, generator=torch.Generator().manual_seed(0)).requires_grad_()
    (gradient,) = torch.autograd.grad(mmd(x), x)
    assert mmd(x) == 0
    assert torch.equal(gradient, torch.zeros_like(gradient))


def test_it_keeps_full_precision_under_autocast():
    x = torch.randn(2, 30, 5, generator=torch.Generator().manual_seed(0))
    expected = mmd(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(mmd(x), expected)
        assert mmd(x.bfloat16()).dtype == torch.float32
