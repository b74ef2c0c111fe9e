"""Adam: the formula of Kingma and Ba (2015), whatever the layout of weights and gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from _internals import Adam
from torch import Tensor, nn

LR, DECAY, BETAS, EPS = 0.1, 0.01, (0.5, 0.9), 1e-8
SHAPE = (4, 3, 2, 5)

LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "expanded": lambda x: x[:1].expand(SHAPE),
}


def numbers(count: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(SHAPE, dtype=torch.float64, generator=generator) for _ in range(count)]


def by_formula(start: np.ndarray, gradients: list[np.ndarray]) -> np.ndarray:
    """θ ← θ − lr m̂ / (√v̂ + ε), with g + decay · θ as the gradient."""
    weight, first, second = start.copy(), np.zeros_like(start), np.zeros_like(start)
    for step, gradient in enumerate(gradients, 1):
        own = gradient + DECAY * weight
        first = BETAS[0] * first + (1 - BETAS[0]) * own
        second = BETAS[1] * second + (1 - BETAS[1]) * own**2
        corrected = np.sqrt(second / (1 - BETAS[1] ** step))
        weight = weight - LR * first / (1 - BETAS[0] ** step) / (corrected + EPS)
    return weight


def descend(optimizer: torch.optim.Optimizer, weight: Tensor, gradients: list[Tensor]) -> None:
    for gradient in gradients:
        weight.grad = gradient
        optimizer.step()


@pytest.mark.parametrize("of_gradient", LAYOUTS)
@pytest.mark.parametrize("of_weight", ["contiguous", "transposed", "channels last"])
def test_steps_are_those_of_the_formula(of_weight: str, of_gradient: str) -> None:
    start, *gradients = numbers(5)
    gradients = [LAYOUTS[of_gradient](gradient) for gradient in gradients]
    expected = by_formula(start.numpy(), [gradient.numpy() for gradient in gradients])
    weight = nn.Parameter(LAYOUTS[of_weight](start.clone()))
    descend(Adam([weight], LR, DECAY, BETAS), weight, gradients)
    np.testing.assert_allclose(weight.detach().numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("of_weight", ["contiguous", "channels last"])
def test_a_copy_and_a_restored_state_go_on_with_the_same_bits(of_weight: str) -> None:
    """A checkpoint stores contiguous moments; the copy meets a gradient of another layout."""
    start, *gradients = numbers(7)
    early, late = gradients[:3], [LAYOUTS["transposed"](gradient) for gradient in gradients[3:]]
    weight = nn.Parameter(LAYOUTS[of_weight](start.clone()))
    optimizer = Adam([weight], LR, DECAY, BETAS)
    descend(optimizer, weight, early)
    stored = {
        place: {name: value.contiguous().clone() for name, value in own.items()}
        for place, own in optimizer.state_dict()["state"].items()
    }
    twin, same = copy.deepcopy((optimizer, weight))
    restored = nn.Parameter(LAYOUTS[of_weight](weight.detach().clone()))
    resumed = Adam([restored], LR, DECAY, BETAS)
    resumed.load_state_dict({**optimizer.state_dict(), "state": stored})
    for own, its in ((optimizer, weight), (twin, same), (resumed, restored)):
        descend(own, its, late)
    assert torch.equal(same, weight)
    assert torch.equal(restored, weight)


def test_a_state_of_torch_goes_on_as_it_began() -> None:
    """As in checkpoints of version 0.1: an interrupted run ends with the bits of that version."""
    start, *gradients = numbers(7)
    before = nn.Parameter(start.clone())
    theirs = torch.optim.Adam([before], lr=LR, weight_decay=DECAY, betas=BETAS)
    descend(theirs, before, gradients[:3])
    weight = nn.Parameter(before.detach().clone())
    ours = Adam([weight], LR, DECAY, BETAS)
    ours.load_state_dict(copy.deepcopy(theirs.state_dict()))
    descend(theirs, before, gradients[3:])
    descend(ours, weight, gradients[3:])
    assert torch.equal(weight, before)


def test_contiguous_weights_are_fused_and_others_are_not() -> None:
    start = numbers(1)[0]
    optimizer = Adam([nn.Parameter(start.clone())], LR)
    optimizer.add_param_group({"params": [nn.Parameter(LAYOUTS["transposed"](start))]})
    assert [group["fused"] for group in optimizer.param_groups] == [True, None]


def test_a_device_without_the_kernel_is_not_fused() -> None:
    weight = nn.Parameter(torch.empty(3, device="meta"))
    optimizer = Adam([weight], LR)
    weight.grad = torch.empty_like(weight)
    optimizer.step()
    assert optimizer.param_groups[0]["fused"] is None
