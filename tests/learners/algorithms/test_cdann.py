"""CDANN: its loss sample by sample, its embeddings, and an interruption."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from _internals import CDANN
from torch import nn

from shiftproof import Batch, Task


def build(seed: int = 0, **hparams: float) -> CDANN:
    torch.manual_seed(seed)
    featurizer = nn.Sequential(nn.Linear(4, 6), nn.ReLU())
    task = Task((4,), num_classes=3, num_domains=2, regime="table")
    settings = {"lr": 1e-2, "discriminator_lr": 1e-2, "discriminator_width": 8, **hparams}
    generator = torch.Generator().manual_seed(seed)
    return CDANN(task, featurizer, nn.Linear(6, 3), CDANN.Hparams(**settings), generator).double()


def batches(steps: int) -> list[Batch]:
    random = torch.Generator().manual_seed(1)
    return [
        Batch(
            torch.randn(2, 8, 4, dtype=torch.float64, generator=random),
            torch.randint(0, 3, (2, 8), generator=random),
        )
        for _ in range(steps)
    ]


@pytest.mark.parametrize("rho", [0.0, 0.7])
def test_what_each_player_descends(rho: float) -> None:
    weight = 0.4
    ours = build(adversarial_weight=weight, discriminator_gradient_penalty=rho)
    (batch,) = batches(1)
    counts = Counter(batch.y.flatten().tolist())
    assert len(counts) == 3
    risk = adversary = torch.zeros((), dtype=torch.float64)
    for domain in range(2):
        for x, y in zip(batch.x[domain], batch.y[domain], strict=True):
            z = ours.featurizer(x)
            risk = risk + F.cross_entropy(ours.head(z), y) / 16
            seen = z + ours.class_embeddings.weight[y]
            domain_risk = F.cross_entropy(ours.discriminator(seen), torch.tensor(domain))
            (slope,) = torch.autograd.grad(domain_risk, seen, create_graph=True)
            adversary = adversary + domain_risk / (3 * counts[y.item()])
            adversary = adversary + rho * (slope @ slope) / 16
    expected = risk - weight * adversary
    network = [*ours.featurizer.parameters(), *ours.head.parameters()]
    discriminator = [*ours.discriminator.parameters(), ours.class_embeddings.weight]

    # The weights of the classes are in single precision, as published.
    close = {"rtol": 1e-6, "atol": 1e-8}
    total = ours.objective(batch).total
    torch.testing.assert_close(total, expected, **close)
    torch.testing.assert_close(
        torch.autograd.grad(total, network),
        torch.autograd.grad(expected, network, retain_graph=True),
        **close,
    )
    total = ours.discriminator_objective(batch).total
    torch.testing.assert_close(total, adversary, **close)
    torch.testing.assert_close(
        torch.autograd.grad(total, discriminator, materialize_grads=True),
        torch.autograd.grad(adversary, discriminator, materialize_grads=True),
        **close,
    )


def test_embeddings_move_with_the_discriminator() -> None:
    ours = build(discriminator_lr=3e-2, discriminator_weight_decay=0.1)
    for turn, batch in zip("ndnd", batches(4), strict=True):
        before = ours.class_embeddings.weight.detach().clone()
        ours.update(batch)
        assert torch.equal(ours.class_embeddings.weight, before) == (turn == "n")
    settings = [(g["lr"], g["weight_decay"]) for g in ours.optimizers["discriminator"].param_groups]
    assert settings == [(3e-2, 0.1), (3e-2, 0.1)]


def test_embeddings_start_normal_from_the_generator_alone() -> None:
    torch.manual_seed(0)
    featurizer, head = nn.Linear(2, 300), nn.Linear(300, 40)
    task = Task((2,), num_classes=40, num_domains=2, regime="table")
    before = torch.get_rng_state()
    ours = CDANN(task, featurizer, head, CDANN.Hparams(), torch.Generator().manual_seed(0))
    assert torch.equal(torch.get_rng_state(), before)
    weight = ours.class_embeddings.weight
    assert weight.shape == (40, 300)
    assert weight.mean().item() == pytest.approx(0, abs=0.03)
    assert weight.std().item() == pytest.approx(1, abs=0.03)
