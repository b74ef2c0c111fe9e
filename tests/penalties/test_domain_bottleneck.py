"""CAD's bottleneck: an enumeration over the batch, an analytic value, and who is left out."""

from __future__ import annotations

import math

import pytest
import torch
from _internals import domain_bottleneck
from torch import Tensor

TEMPERATURE = 0.3


def sample(seed: int = 0, domains: int = 3, size: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(domains, size, 2, dtype=torch.float64, generator=generator)
    return z, torch.randint(2, (domains, size), generator=generator)


def enumerated(z: Tensor, labels: Tensor | None, flipped: bool, normalized: bool) -> float:
    """Every sample picks every other one: no matrix, no mask, no logarithm of a sum."""
    points = [
        (domain, None if labels is None else int(labels[domain, j]), z[domain, j].tolist())
        for domain in range(z.shape[0])
        for j in range(z.shape[1])
    ]
    values = []
    for i, (home, label, at) in enumerate(points):
        own = other = 0.0
        for j, (domain, label_there, to) in enumerate(points):
            if j == i or label_there != label:
                continue
            similar = sum(a * b for a, b in zip(at, to, strict=True))
            if normalized:
                similar /= math.hypot(*at) * math.hypot(*to)
            if domain == home:
                own += math.exp(similar / TEMPERATURE)
            else:
                other += math.exp(similar / TEMPERATURE)
        if flipped and other > 0:
            values.append(-TEMPERATURE / 0.07 * math.log(other / (own + other)))
        if not flipped and own > 0:
            values.append(TEMPERATURE / 0.07 * math.log(own / (own + other)))
    return sum(values) / len(values)


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("flipped", [False, True])
@pytest.mark.parametrize("conditional", [False, True])
def test_equals_an_enumeration(conditional: bool, flipped: bool, normalized: bool) -> None:
    for seed in range(3):
        z, y = sample(seed)
        labels = y if conditional else None
        found = domain_bottleneck(
            z, labels, temperature=TEMPERATURE, flipped=flipped, normalized=normalized
        )
        expected = enumerated(z, labels, flipped, normalized)
        assert found.item() == pytest.approx(expected, rel=1e-12)


def test_where_all_look_alike_the_domain_is_a_guess() -> None:
    """Then s = (b − 1) / (n − 1), the share of the own domain among the others."""
    z = torch.ones(3, 5, 2, dtype=torch.float64)
    expected = -TEMPERATURE / 0.07 * math.log(10 / 14)
    assert domain_bottleneck(z, temperature=TEMPERATURE).item() == pytest.approx(expected)


def test_within_classes_their_proportions_do_not_matter() -> None:
    """Features that tell the class alone: CAD sees the domain in them, CondCAD does not."""
    labels = torch.tensor([[0, 0, 0, 1], [0, 1, 1, 1]])
    z = torch.nn.functional.one_hot(labels).double()
    no_information = torch.zeros_like(z)  # every pick is as likely as any other
    within, guess = (
        domain_bottleneck(x, labels, temperature=TEMPERATURE) for x in (z, no_information)
    )
    assert within.item() == pytest.approx(guess.item())
    across, guess = (domain_bottleneck(x, temperature=TEMPERATURE) for x in (z, no_information))
    assert across > guess + 0.5


def test_large_features_overflow_nothing() -> None:
    z, y = sample()
    large = (1e4 * z.float()).requires_grad_()
    for labels in (None, y):
        (slope,) = torch.autograd.grad(domain_bottleneck(large, labels, temperature=0.05), large)
        assert slope.isfinite().all()


@pytest.mark.parametrize(
    ("domains", "labels"), [(1, None), (2, [[0, 0, 0, 0], [1, 1, 1, 1]])], ids=["one", "apart"]
)
def test_without_anyone_to_pick_there_is_no_penalty(
    domains: int, labels: list[list[int]] | None
) -> None:
    z = sample(domains=domains)[0].requires_grad_()
    given = None if labels is None else torch.tensor(labels)
    penalty = domain_bottleneck(z, given, temperature=TEMPERATURE)
    assert penalty.item() == 0
    assert torch.equal(torch.autograd.grad(penalty, z)[0], torch.zeros_like(z))
