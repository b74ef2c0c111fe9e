"""ANDMask: between ERM, where all agree, and standing still, where none do."""

from __future__ import annotations

import pytest
import torch
from _internals import ERM, ANDMask
from torch import nn

from shiftproof import Batch, Task

HEADS = {
    "linear": lambda: nn.Linear(6, 2),
    "nonlinear": lambda: nn.Sequential(nn.Linear(6, 3), nn.ReLU(), nn.Linear(3, 2)),
    "single logit": lambda: nn.Linear(6, 1),
}


def build(cls: type[ERM], head: str = "linear", **hparams: float) -> ERM:
    torch.manual_seed(0)
    featurizer = nn.Sequential(nn.Linear(4, 6), nn.Tanh())
    task = Task((4,), num_classes=2, num_domains=3, regime="table")
    hparams = {"lr": 1e-2, **hparams}
    algorithm = cls(task, featurizer, HEADS[head](), cls.Hparams(**hparams), torch.Generator())
    return algorithm.double()


def batches(steps: int) -> list[Batch]:
    random = torch.Generator().manual_seed(1)
    return [
        Batch(
            torch.randn(3, 8, 4, dtype=torch.float64, generator=random),
            torch.randint(0, 2, (3, 8), generator=random),
        )
        for _ in range(steps)
    ]


@pytest.mark.parametrize("head", HEADS)
def test_without_a_threshold_it_is_erm(head: str) -> None:
    ours, erm = build(ANDMask, head, tau=0.0, weight_decay=0.1), build(ERM, head, weight_decay=0.1)
    for batch in batches(4):
        assert ours.update(batch)["loss"].item() == pytest.approx(erm.update(batch)["loss"].item())
    assert ours.updates == 4
    torch.testing.assert_close(ours.state_dict(), erm.state_dict(), rtol=0, atol=1e-12)


def test_domains_that_agree_learn_as_one() -> None:
    ours, erm = build(ANDMask, tau=1.0), build(ERM)
    for batch in batches(4):
        same = Batch(batch.x[:1].expand(3, -1, -1), batch.y[:1].expand(3, -1))
        ours.update(same)
        erm.update(same)
    torch.testing.assert_close(ours.state_dict(), erm.state_dict(), rtol=0, atol=1e-12)


def test_domains_that_contradict_each_other_stand_still() -> None:
    ours = build(ANDMask, tau=0.5)
    nn.init.zeros_(ours.head.weight)
    nn.init.zeros_(ours.head.bias)
    before = {name: weight.clone() for name, weight in ours.state_dict().items()}
    (batch,) = batches(1)
    x, y = batch.x[:1], batch.y[:1]
    # At equal odds flipped labels flip the gradient: two domains against one agree to 1/3.
    ours.update(Batch(x.expand(3, -1, -1), torch.cat([y, 1 - y, y])))
    torch.testing.assert_close(ours.state_dict(), before, rtol=0, atol=0)


def test_disagreement_on_one_weight_is_felt_by_that_weight_only() -> None:
    ours = build(ANDMask, tau=1.0)
    ours.featurizer = nn.Identity()
    ours.head = nn.Linear(2, 2, bias=False).double()
    nn.init.zeros_(ours.head.weight)
    ours.reset_optimizer()
    x = torch.tensor([[[1.0, 1.0]], [[1.0, -3.0]]], dtype=torch.float64)
    ours.update(Batch(x, torch.tensor([[1], [1]])))
    # Feature 0 speaks for class 1 in both domains, feature 1 once for and once against it.
    step = ours.hparams.lr
    expected = torch.tensor([[-step, 0.0], [step, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(ours.head.weight.detach(), expected, rtol=1e-6, atol=0)


def test_a_frozen_featurizer_stays() -> None:
    ours = build(ANDMask, tau=0.5, weight_decay=0.1)
    ours.featurizer.requires_grad_(False)
    before = {name: weight.clone() for name, weight in ours.featurizer.state_dict().items()}
    head = ours.head.weight.clone()
    ours.update(batches(1)[0])
    torch.testing.assert_close(ours.featurizer.state_dict(), before, rtol=0, atol=0)
    assert not torch.equal(ours.head.weight, head)
