"""ADRMX: its losses sample by sample, whose turn it is, and where the second featurizer starts."""

from __future__ import annotations

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from _internals import ADRMX, FrozenNorms
from torch import Tensor, nn

from shiftproof import Batch, Task

WEIGHTS = {
    "domain_weight": 0.7,
    "remix_weight": 1.3,
    "contrast_weight": 0.4,
    "adversarial_weight": 0.6,
}


def build(featurizer: nn.Module | None = None, **given: float) -> ADRMX:
    torch.manual_seed(0)
    settings = {"discriminator_width": 8, "discriminator_depth": 3, **WEIGHTS, **given}
    task = Task((4,), num_classes=3, num_domains=2, regime="table")
    return ADRMX(
        task,
        featurizer or nn.Sequential(nn.Linear(4, 5), nn.Tanh()),
        nn.Linear(5, 3),
        ADRMX.Hparams(**settings),  # type: ignore[arg-type]
        torch.Generator().manual_seed(3),
    ).double()


def batch_of(seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, 6, 4, dtype=torch.float64, generator=generator)
    return Batch(x, torch.randint(3, (2, 6), generator=generator))


def contrast(z: list[Tensor], labels: list[int]) -> float:
    unit = [each / each.norm() for each in z]
    values = []
    for i, label in enumerate(labels):
        picked = {j: math.exp(unit[i] @ unit[j] / 0.07) for j in range(len(z)) if j != i}
        same = [j for j in picked if labels[j] == label]
        if same:
            everyone = sum(picked.values())
            values.append(-sum(math.log(picked[j] / everyone) for j in same) / len(same))
    return sum(values) / len(values)


def test_the_network_minimises_the_parts_written_out() -> None:
    ours, batch = build(), batch_of()
    generator = torch.Generator()
    generator.set_state(ours.generator.get_state())
    shuffled = torch.randperm(12, generator=generator).tolist()
    labels, domains = batch.y.flatten().tolist(), [0] * 6 + [1] * 6
    partners: dict[int, int] = {}
    for label in range(3):  # the members of a class, in order, get those in shuffled order
        members = [j for j in range(12) if labels[j] == label]
        partners |= zip(members, (j for j in shuffled if labels[j] == label), strict=True)
    assert any(domains[j] != domains[partners[j]] for j in range(12))

    with torch.no_grad():
        whole = [ours.featurizer(x) for x in batch.x.flatten(0, 1)]
        of_domain = [ours.domain_featurizer(x) for x in batch.x.flatten(0, 1)]
        z = [a - b for a, b in zip(whole, of_domain, strict=True)]

        def mean_risk(outputs: list[Tensor], classes: list[int]) -> float:
            pairs = zip(outputs, classes, strict=True)
            return sum(F.cross_entropy(o, torch.tensor(c)).item() for o, c in pairs) / 12

        expected = {
            "risk": mean_risk([ours.head(r) for r in whole], labels),
            "invariant_risk": mean_risk([ours.invariant_head(r) for r in z], labels),
            "domain_risk": mean_risk([ours.domain_head(r) for r in of_domain], domains),
            "remix_risk": mean_risk(
                [ours.head(z[j] + of_domain[partners[j]]) for j in range(12)], labels
            ),
            "contrast": contrast(whole, labels) + contrast(z, labels),
            "discriminator_loss": mean_risk([ours.discriminator(r) for r in z], domains),
        }
    losses = ours.objective(batch)
    assert {k: v.item() for k, v in losses.parts.items()} == pytest.approx(expected, rel=1e-10)
    total = (
        expected["risk"]
        + expected["invariant_risk"]
        + 0.7 * expected["domain_risk"]
        + 1.3 * expected["remix_risk"]
        + 0.4 * expected["contrast"]
        - 0.6 * expected["discriminator_loss"]
    )
    assert losses.total.item() == pytest.approx(total, rel=1e-10)


def test_the_discriminator_moves_twice_and_the_network_once() -> None:
    """Counting updates t from 1, the network n moves where t mod 3 = 2."""
    ours = build()
    network = {"featurizer", "head", "domain_featurizer", "invariant_head", "domain_head"}
    for seed, turn in enumerate("dnddnd"):
        before = copy.deepcopy(ours.state_dict())
        measured = ours.update(batch_of(seed))
        after = ours.state_dict()
        moved = {name.split(".")[0] for name in after if not torch.equal(after[name], before[name])}
        assert moved == ({"discriminator"} if turn == "d" else network)
        assert measured["discriminator_loss"].isfinite()


def test_pretrained_weights_are_where_both_featurizers_start() -> None:
    ours = build(FrozenNorms(nn.Linear(4, 5)))
    for a, b in zip(ours.featurizer.parameters(), ours.domain_featurizer.parameters(), strict=True):
        assert torch.equal(a, b)
    ours = build()
    assert not torch.equal(ours.featurizer[0].weight, ours.domain_featurizer[0].weight)  # type: ignore[index]


def test_one_domain_is_nothing_to_tell() -> None:
    task = Task((4,), num_classes=3, num_domains=1, regime="table")
    alone = ADRMX(task, nn.Linear(4, 5), nn.Linear(5, 3), ADRMX.Hparams(), torch.Generator())
    batch = Batch(batch_of().x[:1].float(), batch_of().y[:1])
    parts = alone.objective(batch).parts
    assert parts["discriminator_loss"].item() == parts["domain_risk"].item() == 0
