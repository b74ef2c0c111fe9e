"""The discriminator's penalty against its closed form, the weights against counting."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from _internals import class_balancing_weights, input_gradient_penalty
from torch import Tensor


def linear_case() -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(0)
    inputs = torch.randn(2, 6, 5, dtype=torch.float64, generator=random)
    weight = torch.randn(3, 5, dtype=torch.float64, generator=random)
    targets = torch.randint(0, 3, (2, 6), generator=random)
    return inputs, weight, targets


def penalty(inputs: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    inputs = inputs.requires_grad_()
    logits = (inputs @ weight.T).flatten(0, 1)
    risk = F.cross_entropy(logits, targets.flatten(), reduction="none").view(2, 6)
    return input_gradient_penalty(risk, inputs)


def closed_form(inputs: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """∂ℓ/∂z = Wᵀ (softmax(W z) − onehot(d))."""
    residual = (inputs @ weight.T).softmax(dim=-1) - F.one_hot(targets, 3)
    return (residual @ weight).square().sum() / 12


def test_penalty_of_a_linear_discriminator() -> None:
    inputs, weight, targets = linear_case()
    torch.testing.assert_close(
        penalty(inputs, weight, targets).detach(), closed_form(inputs, weight, targets).detach()
    )


def test_penalty_is_differentiable_by_discriminator_and_inputs() -> None:
    inputs, weight, targets = linear_case()
    inputs, weight = inputs.requires_grad_(), weight.requires_grad_()
    ours = torch.autograd.grad(penalty(inputs, weight, targets), (inputs, weight))
    expected = torch.autograd.grad(closed_form(inputs, weight, targets), (inputs, weight))
    torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize("labels", [[[0, 1, 2], [2, 2, 2]], [[0, 0, 0], [0, 1, 2]]])
def test_every_class_weighs_the_same(labels: list[list[int]]) -> None:
    y = torch.tensor(labels)
    weights = class_balancing_weights(y, num_classes=3)
    assert weights.shape == y.shape
    for label in range(3):
        assert weights[y == label].sum().item() == pytest.approx(1 / 3)


def test_classes_that_are_missing() -> None:
    below_the_largest = class_balancing_weights(torch.tensor([0, 2, 2]), num_classes=3)
    assert below_the_largest.tolist() == pytest.approx([1 / 3, 1 / 6, 1 / 6])
    above_the_largest = class_balancing_weights(torch.tensor([0, 1, 1]), num_classes=5)
    assert above_the_largest.tolist() == pytest.approx([1 / 2, 1 / 4, 1 / 4])
