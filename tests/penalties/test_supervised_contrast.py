"""The supervised contrastive loss against an enumeration, and at its smallest and largest."""

from __future__ import annotations

import math

import pytest
import torch
from _internals import supervised_contrast


def test_equals_an_enumeration() -> None:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(7, 3, dtype=torch.float64, generator=generator)
    labels = [0, 1, 0, 1, 1, 0, 2]  # the last has no other of its class

    def similar(i: int, j: int) -> float:
        a, b = z[i].tolist(), z[j].tolist()
        cosine = sum(p * q for p, q in zip(a, b, strict=True)) / math.hypot(*a) / math.hypot(*b)
        return math.exp(cosine / 0.07)

    per_sample = []
    for i in range(6):
        everyone = sum(similar(i, j) for j in range(7) if j != i)
        positives = [j for j in range(7) if j != i and labels[j] == labels[i]]
        per_sample.append(
            -sum(math.log(similar(i, j) / everyone) for j in positives) / len(positives)
        )
    found = supervised_contrast(z, torch.tensor(labels))
    assert found.item() == pytest.approx(sum(per_sample) / 6, rel=1e-12)


def test_classes_at_opposite_directions_cost_only_the_choice_within_them() -> None:
    labels = torch.tensor([0, 0, 0, 1, 1, 1])
    z = torch.where(labels == 0, 1.0, -1.0).double().unsqueeze(1) * torch.ones(2).double()
    assert supervised_contrast(z, labels).item() == pytest.approx(math.log(2), abs=1e-9)


@pytest.mark.parametrize("labels", [[0, 1, 2], [0]])
def test_without_pairs_there_is_no_loss(labels: list[int]) -> None:
    z = torch.ones(len(labels), 2).requires_grad_()
    loss = supervised_contrast(z, torch.tensor(labels))
    assert loss.item() == 0
    assert torch.autograd.grad(loss, z)[0].abs().max() == 0
