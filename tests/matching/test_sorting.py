"""The fast sort against torch's: values, orders and gradients, at every edge of float32."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from _internals import parallel_side_by_side as side_by_side, sort_rows, sorted_rows


def rows(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


EDGES = torch.tensor(
    [
        [0.0, -0.0, 1e-45, -1e-45, 3.4028235e38, -3.4028235e38, 1.1754944e-38, 1.0],
        [1.0, 1.0000001, 0.99999994, 1.0, 1.0, 2.0, -1.0, -1.0000001],
        [7.0, 7.0, 7.0, 7.0, 7.0, 7.0, 7.0, 7.0],
    ]
)


@pytest.mark.parametrize(
    "x",
    [
        rows(0, 1000, 32),
        rows(1, 3, 7, 1),
        rows(2, 2, 70_000),
        rows(3, 40, 9).round(),  # many ties
        rows(11, 6, 5000).clamp(min=0) * rows(12, 5000),  # many zeros, long
        rows(13, 4, 5000).clamp(min=0),  # no value below 0
        torch.zeros(2, 5000),
        rows(14, 3, 9000).transpose(0, 1).reshape(9000, 3).T,  # long, not contiguous
        EDGES,
        EDGES.repeat(1, 700)[:, torch.randperm(5600, generator=torch.Generator().manual_seed(15))],
        rows(4, 8, 16).double(),
        rows(5, 6, 4, 10).transpose(0, 2),  # not contiguous
    ],
    ids=[
        "short",
        "single",
        "long",
        "ties",
        "sparse",
        "relu",
        "zeros",
        "long-strided",
        "edges",
        "long-edges",
        "double",
        "strided",
    ],
)
def test_it_sorts_as_torch_does(x: torch.Tensor) -> None:
    kept = x.clone()
    values, order = sort_rows(x)
    assert torch.equal(values, x.sort(dim=-1).values)
    assert torch.equal(x.gather(-1, order), values)  # the order is one, whatever it does with ties
    assert torch.equal(order.sort(dim=-1).values, torch.arange(x.shape[-1]).expand(x.shape))
    assert torch.equal(sorted_rows(x), values)
    assert torch.equal(sorted_rows(x.clone().requires_grad_()), values)
    assert torch.equal(x, kept)
    into = torch.full_like(values, 9), torch.full_like(order, 9)
    assert all(map(torch.equal, into, sort_rows(x, into))), "the result is not in `into`"
    assert torch.equal(into[0], values)
    assert torch.equal(into[1], order)


@pytest.mark.parametrize("length", [200, 6000])
def test_equal_values_keep_their_order_above_zero_and_reverse_it_below(length: int) -> None:
    x = rows(16, 4, length).sign() * torch.arange(1, 5)[:, None]
    for row, order in zip(x, sort_rows(x)[1], strict=True):
        below, above = (row < 0).nonzero().flatten(), (row > 0).nonzero().flatten()
        assert order.tolist() == below.flip(0).tolist() + above.tolist()


def test_gradients_go_back_to_where_the_values_were() -> None:
    x = rows(6, 50, 33)
    weight = rows(7, 50, 33)
    slopes = []
    for sort in (sorted_rows, lambda leaf: leaf.sort(dim=-1).values):
        leaf = x.clone().requires_grad_()
        slopes += torch.autograd.grad((sort(leaf) * weight).sum(), leaf)
    assert torch.equal(*slopes)


def test_of_equal_values_each_gets_one_of_the_slopes() -> None:
    x = torch.tensor([[2.0, 1.0, 1.0]], requires_grad=True)
    (slope,) = torch.autograd.grad((sorted_rows(x) * torch.tensor([10.0, 20.0, 30.0])).sum(), x)
    assert slope[0, 0] == 30
    assert sorted(slope[0, 1:].tolist()) == [10, 20]


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_the_number_of_threads_does_not_change_a_bit(three_threads: None) -> None:
    x = rows(10, 3, 5000, 40)
    expected = x.sort(dim=-1)
    values, order = sort_rows(x)
    assert torch.equal(values, expected.values)
    assert torch.equal(order, expected.indices)
    assert torch.equal(sorted_rows(x), expected.values)
    long = rows(17, 5, 20_000)
    assert torch.equal(sort_rows(long)[0], long.sort(dim=-1).values)
    assert torch.equal(long.gather(-1, sort_rows(long)[1]), long.sort(dim=-1).values)


def test_side_by_side_keeps_order_leaves_torch_alone_and_raises(three_threads: None) -> None:
    found = side_by_side(lambda item: (item, torch.get_num_threads()), range(7))
    assert found == [(item, 1) for item in range(7)]
    assert torch.get_num_threads() == 3
    with pytest.raises(ZeroDivisionError):
        side_by_side(lambda item: 1 // item, [1, 0])
    # A worker that deals out work does it itself: nobody waits for anybody.
    nested = side_by_side(lambda item: side_by_side(abs, [-item, item]), range(9))
    assert nested == [[item, item] for item in range(9)]


@pytest.mark.parametrize("length", [9, 5000])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_stays_so(bad: float, length: int) -> None:
    x = rows(8, 4, length)
    x[2, 3] = bad
    values, order = sort_rows(x)
    assert ((~values.isfinite()).sum(-1) == torch.tensor([0, 0, 1, 0])).all()
    # Where it came from may be lost, but is a position.
    assert ((order >= 0) & (order < length)).all()


def test_under_vmap_and_on_meta_torch_sorts() -> None:
    x = rows(9, 5, 6, 7)
    assert torch.equal(torch.vmap(sorted_rows)(x), x.sort(dim=-1).values)
    values, order = sort_rows(x.to("meta"))
    assert values.shape == order.shape == x.shape


def test_more_positions_than_a_float32_leaves_room_for_are_not_tried() -> None:
    """2²⁹ values would take gigabytes; the rule is read off the bits instead."""
    position = (1 << 29) - 1
    with_position = (np.float64(np.float32(1.0)).view(np.int64) | position).view(np.float64)
    assert with_position < np.float64(np.nextafter(np.float32(1), np.float32(2)))
    assert np.float32(with_position) != np.float32(1)  # hence values are read from the kept bits
