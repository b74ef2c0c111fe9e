"""Groups brought to common levels: the levels, and that the way back is the adjoint."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from _internals import from_levels, merged_levels, overlap, to_levels

LIKE = torch.zeros((), dtype=torch.float64)


def ranked(size: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(size)
    return torch.randn(3, size, dtype=torch.float64, generator=generator).sort(dim=1).values


@pytest.mark.parametrize("sizes", [(2, 3), (4, 6, 9), (5, 5), (1, 7)])
def test_merged_levels_are_the_quantile_functions(sizes: tuple[int, ...]) -> None:
    places, widths = merged_levels(sizes, 0, LIKE)
    cells = math.lcm(*sizes)
    repeats = (widths * cells).round().long()
    assert int(repeats.sum()) == cells
    for size, place in zip(sizes, places, strict=True):
        expected = ranked(size).repeat_interleave(cells // size, dim=1)
        found = to_levels(ranked(size), place).repeat_interleave(repeats, dim=1)
        assert torch.equal(found, expected)


def test_trimming_leaves_the_same_share_of_each_group_out() -> None:
    places, widths = merged_levels((4, 8), 1, LIKE)
    assert widths.sum().item() == pytest.approx(1)
    assert [place.unique().tolist() for place in places] == [[1, 2], [2, 3, 4, 5]]


@pytest.mark.parametrize(("size", "levels"), [(4, 6), (6, 4), (3, 9), (9, 3), (1, 5), (7, 5)])
def test_overlap_is_the_mean_over_equal_shares(size: int, levels: int) -> None:
    x = ranked(size)
    fine = x.numpy().repeat(levels, axis=1).reshape(3, levels, size)
    found = to_levels(x, overlap(size, levels, LIKE))
    np.testing.assert_allclose(found.numpy(), fine.mean(axis=2), rtol=1e-12)


def test_nothing_is_done_where_sizes_agree() -> None:
    assert overlap(5, 5, LIKE) is None
    x = ranked(5)
    assert to_levels(x, None) is x
    assert from_levels(x, None, 5) is x


@pytest.mark.parametrize("exact", [True, False])
def test_the_way_back_is_what_autograd_finds(exact: bool) -> None:
    x = ranked(4).requires_grad_()
    rule = merged_levels((4, 6), 0, LIKE)[0][0] if exact else overlap(4, 6, LIKE)
    levels = to_levels(x, rule)
    slopes = torch.arange(levels.numel(), dtype=torch.float64).view(levels.shape)
    (expected,) = torch.autograd.grad(levels, x, slopes)
    torch.testing.assert_close(from_levels(slopes, rule, 4), expected, rtol=1e-12, atol=0)
