"""CORAL against numpy.cov, pair by pair."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from _internals import InvalidValue, coral


def by_pairs(groups):
    """The definition, with numpy.cov."""
    return np.mean(
        [
            np.mean((x.mean(0) - y.mean(0)) ** 2)
            + np.mean((np.cov(x, rowvar=False) - np.cov(y, rowvar=False)) ** 2)
            for x, y in combinations(groups, 2)
        ]
    )


@pytest.mark.parametrize(
    ("sizes", "dims"), [((5, 5), 3), ((4, 4, 4), 6), ((9,) * 4, 2), ((3, 8), 4), ((2, 5, 7), 1)]
)
def test_equals_the_mean_over_pairs_of_moment_distances(sizes, dims):
    rng = np.random.RandomState(sum(sizes))
    groups = [rng.randn(size, dims) * (1 + i) + i for i, size in enumerate(sizes)]
    found = coral([torch.from_numpy(group) for group in groups])
    assert found.item() == pytest.approx(by_pairs(groups), rel=1e-12)


def test_a_stacked_tensor_is_a_sequence_of_groups():
    x = torch.randn(3, 6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert coral(x).item() == coral(list(x)).item()


def test_sees_no_order_and_only_the_shift_of_a_shifted_copy():
    x = torch.randn(8, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    shift = torch.tensor([1.0, -2.0, 0.0, 3.0, 0.5], dtype=torch.float64)
    assert coral([x, x.flip(0)]).item() == pytest.approx(0, abs=1e-28)
    moved = coral([x, x.flip(0) + shift]).item()
    assert moved == pytest.approx(shift.square().mean().item(), rel=1e-12)


@pytest.mark.parametrize(
    ("groups", "message"), [([torch.zeros(1, 2)] * count, "at least 2 samples") for count in (1, 2)]
)
def test_too_little_to_compare_is_an_error(groups, message):
    with pytest.raises(InvalidValue, match=message):
        coral(groups)


def test_one_group_has_nothing_to_be_compared_with():
    x = torch.randn(1, 4, 2, generator=torch.Generator().manual_seed(0)).requires_grad_()
    (gradient,) = torch.autograd.grad(coral(x), x)
    assert coral(x) == 0
    assert torch.equal(gradient, torch.zeros_like(gradient))
