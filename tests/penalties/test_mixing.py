"""Mixtures, the law of their weights, and rings of pairs."""

from __future__ import annotations

import pytest
import torch
from _internals import beta_weights, mix, ring_pairs
from scipy import stats


def test_mix_weighs_every_leading_entry_by_itself() -> None:
    generator = torch.Generator().manual_seed(0)
    first = torch.randn(3, 4, 2, 5, dtype=torch.float64, generator=generator)
    second = torch.randn(3, 4, 2, 5, dtype=torch.float64, generator=generator)
    weight = torch.rand(3, dtype=torch.float64, generator=generator)
    mixed = mix(first, second, weight)
    for i, w in enumerate(weight.tolist()):
        torch.testing.assert_close(mixed[i], w * first[i] + (1 - w) * second[i])
    torch.testing.assert_close(mix(first, second, weight[0])[2], mix(first, second, weight[:1])[2])


@pytest.mark.parametrize("alpha", [0.1, 0.2, 1.0, 10.0])
def test_weights_follow_the_beta_law(alpha: float) -> None:
    drawn = beta_weights(alpha, 20_000, torch.Generator().manual_seed(1))
    assert drawn.dtype == torch.float64
    assert stats.kstest(drawn.numpy(), stats.beta(alpha, alpha).cdf).pvalue > 1e-3


def test_weights_are_finite_for_tiny_alpha() -> None:
    drawn = beta_weights(1e-3, 10_000, torch.Generator().manual_seed(2))
    assert ((drawn >= 0) & (drawn <= 1)).all()
    assert abs(drawn.mean().item() - 0.5) < 0.02


def test_weights_are_determined_by_the_generator_and_move_it_on() -> None:
    one, other = (torch.Generator().manual_seed(3) for _ in range(2))
    torch.manual_seed(0)
    untouched = torch.get_rng_state()
    first = beta_weights(0.5, 4, one)
    assert torch.equal(first, beta_weights(0.5, 4, other))
    assert not torch.equal(first, beta_weights(0.5, 4, other))
    assert torch.equal(torch.get_rng_state(), untouched)


@pytest.mark.parametrize("size", [2, 3, 6])
def test_pairs_form_one_ring(size: int) -> None:
    generator = torch.Generator().manual_seed(size)
    rings = set()
    for _ in range(200):
        first, second = ring_pairs(size, generator)
        partner = dict(zip(first.tolist(), second.tolist(), strict=True))
        visited = [0]
        while (following := partner[visited[-1]]) != 0:
            visited.append(following)
        assert sorted(visited) == list(range(size))
        rings.add(tuple(visited))
    assert len(rings) >= {2: 1, 3: 2, 6: 80}[size]  # of (size − 1)! rings
