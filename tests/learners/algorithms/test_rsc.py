"""RSC: its mask and gradient against a sample-by-sample computation in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from _internals import RSC
from torch import Tensor, nn

from shiftproof import Batch, Task


def build(head: nn.Module, classes: int = 3, **hparams: float) -> RSC:
    torch.manual_seed(0)
    featurizer = nn.Sequential(nn.Linear(4, 10), nn.Tanh())
    task = Task((4,), num_classes=classes, num_domains=3, regime="table")
    return RSC(task, featurizer, head, RSC.Hparams(**hparams), torch.Generator()).double()


def a_batch(classes: int = 3) -> Batch:
    random = torch.Generator().manual_seed(1)
    x = torch.randn(3, 8, 4, dtype=torch.float64, generator=random)
    return Batch(x, torch.randint(0, classes, (3, 8), generator=random))


def linear_head(classes: int = 3) -> nn.Linear:
    torch.manual_seed(3)
    return nn.Linear(10, classes).double()


def expected_mask(head: nn.Linear, features: Tensor, labels: Tensor, p: float, q: float) -> Tensor:
    """For a linear head the gradient of the label's logit is the label's row of W."""
    weight, bias = head.weight.detach().numpy(), head.bias.detach().numpy()
    masks, changes = [], []
    for r, y in zip(features.detach().flatten(0, 1).numpy(), labels.flatten(), strict=True):
        mask = weight[y] < np.percentile(weight[y], (1 - p) * 100)
        kept, muted = (np.exp(weight @ z + bias) for z in (r, r * mask))
        changes.append(kept[y] / kept.sum() - muted[y] / muted.sum())
        masks.append(mask)
    whole = np.array(changes) < np.percentile(changes, (1 - q) * 100)
    return torch.from_numpy(np.array(masks) | whole[:, None]).view(*features.shape)


@pytest.mark.parametrize(("p", "q"), [(1 / 3, 1 / 3), (0.5, 0.2), (0.1, 0.45), (0.0, 0.0)])
def test_mask_risk_and_gradient(p: float, q: float) -> None:
    ours = build(linear_head(), feature_drop=p, batch_drop=q)
    batch = a_batch()
    features = ours.features(batch)
    mask = expected_mask(ours.head, features, batch.y, p, q)
    assert torch.equal(ours.challenge(features.detach(), batch.y), mask)

    logits = ours.head(features * mask).flatten(0, 1)
    expected = F.cross_entropy(logits, batch.y.flatten())
    total = ours.objective(batch).total
    torch.testing.assert_close(total, expected)
    weights = list(ours.parameters())
    torch.testing.assert_close(
        torch.autograd.grad(total, weights), torch.autograd.grad(expected, weights)
    )


def test_muting_hurts_the_challenged_only() -> None:
    ours = build(linear_head(), feature_drop=0.3, batch_drop=0.25)
    batch = a_batch()
    features = ours.features(batch).detach()
    challenged = ~ours.challenge(features, batch.y).all(dim=-1)
    assert challenged.sum() == 6  # a quarter of 24, over the whole batch


def test_one_logit_is_two_that_mirror_each_other() -> None:
    """σ(s) is the softmax of (−s/2, s/2), so the masks, the risk and its gradient agree."""
    two = linear_head(2)
    with torch.no_grad():
        two.weight[0], two.bias[0] = -two.weight[1], -two.bias[1]
    one = nn.Linear(10, 1).double()
    with torch.no_grad():
        one.weight.copy_(2 * two.weight[1:])
        one.bias.copy_(2 * two.bias[1:])
    batch = a_batch(classes=2)
    single, double = build(one, 2), build(two, 2)
    features = single.features(batch).detach()
    mask = single.challenge(features, batch.y)
    assert torch.equal(mask, double.challenge(features.clone(), batch.y))
    assert not mask.all()
    ours, expected = single.objective(batch).total, double.objective(batch).total
    torch.testing.assert_close(ours, expected)
    torch.testing.assert_close(
        torch.autograd.grad(ours, list(single.featurizer.parameters())),
        torch.autograd.grad(expected, list(double.featurizer.parameters())),
    )


def test_a_nonlinear_head_is_muted_by_its_own_gradient() -> None:
    torch.manual_seed(3)
    head = nn.Sequential(nn.Linear(10, 6), nn.Tanh(), nn.Linear(6, 3)).double()
    ours = build(head, feature_drop=0.3, batch_drop=1.0)  # everyone is challenged
    batch = a_batch()
    features = ours.features(batch).detach()
    mask = ours.challenge(features, batch.y)
    for i in range(3):
        for j in range(8):
            jacobian = torch.autograd.functional.jacobian(head, features[i, j].detach())
            gradient = jacobian[batch.y[i, j]].numpy()
            assert np.array_equal(mask[i, j].numpy(), gradient < np.percentile(gradient, 70))


def test_it_trains_a_frozen_featurizers_head() -> None:
    ours = build(linear_head())
    ours.featurizer.requires_grad_(False)
    before = ours.head.weight.clone()
    ours.update(a_batch())
    assert not torch.equal(ours.head.weight, before)
