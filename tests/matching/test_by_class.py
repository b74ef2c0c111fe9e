"""PDM class by class against PDM of each class's groups, and what it leaves alone."""

from __future__ import annotations

import pytest
import torch
from _internals import pdm_by_class
from torch import Tensor

from shiftproof import pdm


def make(seed: int, domains: int, size: int, classes: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(domains, size, 3, dtype=torch.float64, generator=generator)
    y = torch.randint(classes, (domains, size), generator=generator)
    return (x + y.unsqueeze(-1)).requires_grad_(), y


def by_groups(x: Tensor, y: Tensor, classes: int, order: int) -> Tensor:
    """Written from the definition: the mean of PDM over the classes that all domains hold."""
    found = []
    for c in range(classes):
        groups = [x[i][y[i] == c] for i in range(len(x))]
        if all(len(group) for group in groups):
            found.append(pdm(groups, order=order))
    return torch.stack(found).mean() if found else x.sum() * 0


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(
    ("domains", "size", "classes"), [(2, 9, 2), (3, 30, 4), (4, 5, 6), (1, 7, 2)]
)
def test_it_is_the_mean_over_shared_classes(domains, size, classes, order):
    for seed in range(8):
        x, y = make(seed, domains, size, classes)
        found, expected = pdm_by_class(x, y, classes, order), by_groups(x, y, classes, order)
        torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-9)
        ours, theirs = (torch.autograd.grad(value, x)[0] for value in (found, expected))
        torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=1e-9)


def test_one_class_for_all_is_plain_pdm():
    x, y = make(0, 3, 20, 4)
    torch.testing.assert_close(pdm_by_class(x, y * 0, 4), pdm(x))


def test_classes_in_other_shares_alone_cost_nothing():
    x = torch.tensor([[[0.0]] * 3 + [[5.0]], [[0.0]] + [[5.0]] * 3])
    y = torch.tensor([[0, 0, 0, 1], [0, 1, 1, 1]])
    assert pdm_by_class(x, y, 2) == 0
    assert pdm(x) > 1


def test_no_class_in_common_is_zero_with_a_gradient():
    x = torch.randn(2, 3, 2, requires_grad=True)
    penalty = pdm_by_class(x, torch.tensor([[0, 0, 0], [1, 1, 1]]), 2)
    penalty.backward()
    assert penalty == 0
    assert torch.equal(x.grad, torch.zeros_like(x))


def test_a_class_that_one_domain_lacks_plays_no_part():
    x, y = make(1, 2, 12, 3)
    y = torch.where((torch.arange(2) == 1).unsqueeze(1) & (y == 2), 0, y)
    moved = torch.where((y == 2).unsqueeze(-1), x + 100, x)
    torch.testing.assert_close(pdm_by_class(x, y, 3), pdm_by_class(moved, y, 3))


def test_single_precision_compares_no_class_with_another():
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(7, (5, 64), generator=generator)
    x = (1000.0 * y).unsqueeze(-1).expand(-1, -1, 2)
    # Where rounding lets two classes touch, a sliver of their distance of 10⁶ comes in.
    assert pdm_by_class(x, y, 7) < 1.0


@pytest.mark.parametrize("order", [1, 2])
def test_groups_of_unequal_sizes(order):
    for seed in range(8):
        x, y = make(seed, 3, 12, 3)
        sizes = (12, 7, 9)
        groups = [x[i, :size] for i, size in enumerate(sizes)]
        labels = [y[i, :size] for i, size in enumerate(sizes)]
        found = pdm_by_class(groups, labels, 3, order)
        of_classes = [
            pdm([g[own == c] for g, own in zip(groups, labels, strict=True)], order=order)
            for c in range(3)
            if all((own == c).any() for own in labels)
        ]
        expected = torch.stack(of_classes).mean()
        torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-9)
        ours, theirs = (torch.autograd.grad(value, x)[0] for value in (found, expected))
        torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=1e-9)


def test_half_precision_is_computed_in_single_precision():
    x, y = make(0, 2, 12, 3)
    half = x.detach().bfloat16()
    assert torch.equal(pdm_by_class(half, y, 3), pdm_by_class(half.float(), y, 3))
