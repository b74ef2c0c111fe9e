"""CAD and CondCAD: the loss, what labels change, and what the bottleneck does to features."""

from __future__ import annotations

import math

import pytest
import torch
from _internals import CAD, CondCAD
from torch import nn

from shiftproof import Batch, Task


def build(cls: type[CAD], **given: float) -> CAD:
    torch.manual_seed(0)
    hparams = cls.Hparams(**{"lr": 0.02, **given})  # type: ignore[arg-type]
    task = Task((3,), 2, num_domains=2, regime="table")
    return cls(task, nn.Linear(3, 2), nn.Linear(2, 2), hparams, torch.Generator()).double()


def batch_of(seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, 6, 3, dtype=torch.float64, generator=generator)
    return Batch(x, torch.tensor([[0, 0, 1, 1, 0, 1], [1, 0, 0, 1, 1, 1]]))


@pytest.mark.parametrize("cls", [CAD, CondCAD])
def test_the_loss_is_the_risk_and_the_bottleneck_pair_by_pair(cls: type[CAD]) -> None:
    algorithm = build(cls, penalty_weight=0.7, temperature=0.4)
    batch = batch_of()
    z = algorithm.featurizer(batch.x.flatten(0, 1)).tolist()
    labels, n = batch.y.flatten().tolist(), 12
    penalties = []
    for i in range(n):
        picked = {
            j: math.exp((z[i][0] * z[j][0] + z[i][1] * z[j][1]) / 0.4)
            for j in range(n)
            if j != i and (cls is CAD or labels[j] == labels[i])
        }
        elsewhere = sum(p for j, p in picked.items() if j // 6 != i // 6)
        penalties.append(-0.4 / 0.07 * math.log(elsewhere / sum(picked.values())))
    losses = algorithm.objective(batch)
    risk = nn.functional.cross_entropy(
        algorithm.predict(batch.x.flatten(0, 1)), batch.y.flatten()
    ).item()
    assert losses.parts["penalty"].item() == pytest.approx(sum(penalties) / n, rel=1e-10)
    assert losses.total.item() == pytest.approx(risk + 0.7 * sum(penalties) / n, rel=1e-10)


def test_labels_matter_to_condcad_alone() -> None:
    batch = batch_of()
    other = Batch(batch.x, 1 - batch.y.roll(1, dims=1))
    for cls, same in ((CAD, True), (CondCAD, False)):
        algorithm = build(cls)
        first, second = (algorithm.objective(b).parts["penalty"] for b in (batch, other))
        assert torch.equal(first, second) is same


def test_it_moves_domains_together() -> None:
    """One input tells the class and another the domain: the bottleneck forgets the latter."""
    generator = torch.Generator().manual_seed(0)

    def batch() -> Batch:
        y = torch.randint(2, (2, 16), generator=generator)
        x = torch.randn(2, 16, 3, dtype=torch.float64, generator=generator) / 10
        x[..., 0] += 2 * y - 1
        x[..., 1] += torch.tensor([[-1.0], [1.0]])
        return Batch(x, y)

    def sensitivity(weight: float) -> float:
        algorithm = build(CondCAD, penalty_weight=weight)
        for _ in range(60):
            algorithm.update(batch())
        to_class, to_domain, _ = algorithm.featurizer.weight.norm(dim=0).tolist()
        return float(to_domain / to_class)

    assert sensitivity(1.0) < 0.2 < sensitivity(0.0)
