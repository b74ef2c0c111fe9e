"""Transfer: a whole update written out in NumPy and plain torch, and the ball of the adversary."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from _internals import Transfer
from torch import Tensor, nn

from shiftproof import Batch, Task


def build(domains: int = 3, **given: float) -> Transfer:
    torch.manual_seed(0)
    featurizer = nn.Sequential(nn.Linear(5, 4), nn.Tanh())
    hparams = Transfer.Hparams(**{"lr": 0.02, **given})  # type: ignore[arg-type]
    task = Task((5,), 3, domains, regime="table")
    return Transfer(task, featurizer, nn.Linear(4, 3), hparams, torch.Generator()).double()


def batch_of(seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(3, 6, 5, dtype=torch.float64, generator=generator)
    return Batch(x + torch.arange(3).view(3, 1, 1), torch.randint(3, (3, 6), generator=generator))


def risks_and_slopes(z: np.ndarray, y: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each domain's risk, and its gradient by the weights and bias w [c, k + 1]."""
    z = np.concatenate([z, np.ones((*z.shape[:2], 1))], axis=2)
    p = np.exp(z @ w.T)
    p /= p.sum(axis=2, keepdims=True)
    of_label = np.take_along_axis(p, y[..., None], axis=2)[..., 0]
    residual = p - np.eye(len(w))[y]
    return -np.log(of_label).mean(axis=1), np.einsum("dbc,dbk->dck", residual, z) / z.shape[1]


def climbed(z: np.ndarray, y: np.ndarray, centre: np.ndarray, ours: Transfer) -> np.ndarray:
    h, w = ours.hparams, centre
    for _ in range(h.adversary_steps):
        risks, slopes = risks_and_slopes(z, y, w)
        w = w + h.adversary_lr * h.gap_weight * (slopes[risks.argmax()] - slopes[risks.argmin()])
        away = np.linalg.norm(w - centre)
        if away > h.adversary_radius:
            w = centre + h.adversary_radius / away * (w - centre)
    return w


def weights_of(head: nn.Linear) -> np.ndarray:
    found: np.ndarray = torch.cat([head.weight, head.bias.unsqueeze(1)], dim=1).detach().numpy()
    return found


@pytest.mark.parametrize("radius", [0.05, 100.0])
def test_updates_equal_those_written_out(radius: float) -> None:
    ours = build(gap_weight=0.7, adversary_radius=radius, adversary_steps=4, adversary_lr=0.3)
    featurizer, head, adversary = (
        copy.deepcopy(part) for part in (ours.featurizer, ours.head, ours.head)
    )
    adam = torch.optim.Adam([*featurizer.parameters(), *head.parameters()], lr=0.02)
    for seed in range(4):
        batch = batch_of(seed)
        measured = ours.update(batch)
        logits = head(featurizer(batch.x.flatten(0, 1)))
        risk = F.cross_entropy(logits, batch.y.flatten())
        adam.zero_grad()
        risk.backward()
        adam.step()
        before = weights_of(head).copy()
        pairs = zip(batch.x, batch.y, strict=True)
        risks = [F.cross_entropy(adversary(featurizer(x)), y) for x, y in pairs]
        gap = max(risks, key=Tensor.item) - min(risks, key=Tensor.item)
        adam.zero_grad()
        (0.7 * gap).backward()
        adam.step()
        assert np.array_equal(weights_of(head), before)  # the gap is a matter of φ
        z = featurizer(batch.x).detach().numpy()
        w = torch.from_numpy(climbed(z, batch.y.numpy(), weights_of(head), ours))
        with torch.no_grad():
            adversary.weight.copy_(w[:, :-1])
            adversary.bias.copy_(w[:, -1])
        assert measured["loss"].item() == pytest.approx(risk.item())
        assert measured["gap"].item() == pytest.approx(gap.item())
        for mine, theirs in (
            (ours.featurizer, featurizer), (ours.head, head), (ours.adversary, adversary)
        ):  # fmt: skip
            for a, b in zip(mine.parameters(), theirs.parameters(), strict=True):
                torch.testing.assert_close(a, b, rtol=0, atol=1e-9)
        away = np.linalg.norm(weights_of(ours.adversary) - weights_of(ours.head))  # type: ignore[arg-type]
        assert away <= radius * (1 + 1e-9)
        assert (away == pytest.approx(radius)) == (
            radius < 1
        )  # four such steps leave the small one


def test_the_adversary_finds_a_larger_gap_than_the_head_has() -> None:
    ours = build(adversary_steps=20, adversary_lr=0.1, adversary_radius=2.0)
    batch = batch_of(0)
    with torch.no_grad():
        features = ours.features(batch)
    at_head = ours.gap(dict(ours.head.named_parameters()), features, batch.y)
    ours.ascend(batch)
    found = ours.gap(dict(ours.adversary.named_parameters()), features, batch.y)
    assert found > at_head + 0.1
