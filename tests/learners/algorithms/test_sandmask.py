"""SANDMask: a threshold of 1 learns nothing, a steep mask is ANDMask's, a flat one its own."""

from __future__ import annotations

import pytest
import torch
from _internals import ANDMask, SANDMask
from torch import nn

from shiftproof import Batch, Task


def build(cls: type[ANDMask], **hparams: float) -> ANDMask:
    torch.manual_seed(0)
    featurizer = nn.Sequential(nn.Linear(4, 6), nn.Tanh())
    task = Task((4,), num_classes=3, num_domains=3, regime="table")
    hparams = {"lr": 1e-2, **hparams}
    algorithm = cls(task, featurizer, nn.Linear(6, 3), cls.Hparams(**hparams), torch.Generator())
    return algorithm.double()


def batches(steps: int) -> list[Batch]:
    random = torch.Generator().manual_seed(1)
    return [
        Batch(
            torch.randn(3, 8, 4, dtype=torch.float64, generator=random),
            torch.randint(0, 3, (3, 8), generator=random),
        )
        for _ in range(steps)
    ]


def test_the_default_threshold_learns_nothing() -> None:
    ours = build(SANDMask)
    assert ours.hparams.tau == 1
    before = {name: weight.clone() for name, weight in ours.state_dict().items()}
    for batch in batches(3):
        ours.update(batch)
    torch.testing.assert_close(ours.state_dict(), before, rtol=0, atol=0)


@pytest.mark.parametrize("tau", [0.2, 0.6])  # three signs agree to 1/3 or to 1
def test_a_steep_mask_is_andmasks(tau: float) -> None:
    smooth, hard = build(SANDMask, tau=tau, k=1e12), build(ANDMask, tau=tau)
    for batch in batches(4):
        smooth.update(batch)
        hard.update(batch)
    # ANDMask takes the mean of its mask in single precision.
    torch.testing.assert_close(smooth.state_dict(), hard.state_dict(), rtol=0, atol=1e-8)


def test_a_flat_mask_follows_the_variance_of_the_gradients() -> None:
    """In its linear range M ∝ 1/σ², so the gradient given to Adam is ∝ ḡ/σ²."""
    ours = build(SANDMask, tau=0.0, k=1e-9)
    ours.featurizer = nn.Identity()
    ours.head = nn.Linear(2, 2, bias=False).double()
    nn.init.zeros_(ours.head.weight)
    ours.reset_optimizer()
    x = torch.tensor([[[1.0, 2.0]], [[2.0, 6.0]]], dtype=torch.float64)
    ours.update(Batch(x, torch.tensor([[1], [1]])))
    # g = ±x/2, so per feature ḡ = ±(0.75, 2) and σ² = (0.125, 2) with equal signs: ratio 6 to 1.
    gradient = ours.head.weight.grad
    ratio = gradient[1, 0] / gradient[1, 1]
    assert ratio.item() == pytest.approx(6, rel=1e-6)
    assert (gradient[0] / gradient[1]).tolist() == pytest.approx([-1, -1])
