"""Whether domains pull the head apart: what is seen, and the closed forms of its statistics."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from shiftproof.learners.algorithms import disagreement
from shiftproof.learners.algorithms.disagreement import (
    MEMORISED,
    PATIENCE,
    Disagreement,
    MovingContrasts,
    permuted_within_classes,
)
from shiftproof.matching.gradients import LinearGradients, linear_head_gradients


def watched(
    gap: float,
    *,
    steps: int = 250,
    seed: int = 0,
    warm_from: int = 0,
    shares=(0.5, 0.5),
    domains=2,
    share=0.5,
) -> list[int]:
    """Gradients of noise 1 whose means lie `gap` apart in one of 60 dimensions."""
    generator = torch.Generator().manual_seed(seed)
    shift, levels = Disagreement(), []
    way = torch.arange(domains).view(-1, 1) - (domains - 1) / 2
    for step in range(steps):
        chance = torch.rand(domains, 64, generator=generator)
        y = (chance < torch.tensor(shares).view(-1, 1)[:domains]).long()
        g = torch.randn(domains, 64, 60, generator=generator)
        g[..., 0] += gap * way
        g[..., 1] += 3 * (y - 0.5)  # a gradient depends on the label
        warm = step >= warm_from
        levels.append(int(shift(g, y, torch.tensor(share), generator, warm=warm)[0]))
    return levels


def test_what_is_there_is_seen_and_stays_seen():
    levels = watched(1.0)
    assert levels[-1] == 2
    assert levels == sorted(levels)


def test_nothing_is_seen_where_nothing_is():
    assert not any(max(watched(0.0, seed=seed, steps=200)) for seed in range(10))


@pytest.mark.parametrize("seed", range(3))
def test_label_shift_alone_is_no_concept_shift(seed):
    assert not any(watched(0.0, seed=seed, steps=200, shares=(0.2, 0.9)))


def test_a_small_shift_is_seen_but_not_as_a_large_one():
    """±0.2 in one dimension is 0.04/62 of the variance, under 0.0015."""
    assert watched(0.4)[-1] == 1


def test_it_waits_for_the_warm_up_and_for_its_averages():
    assert watched(1.0).index(2) == PATIENCE
    assert watched(1.0, warm_from=200).index(2) == 200


def test_one_domain_never_shifts():
    assert not any(watched(0.0, domains=1, shares=(0.5,)))


def test_permuting_keeps_classes_and_sizes():
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(3, (4, 20), generator=generator)
    places = permuted_within_classes(y, generator)
    assert places.flatten().sort().values.tolist() == list(range(80))
    for domain in range(4):
        permuted = torch.bincount(y.flatten()[places[domain]], minlength=3)
        assert torch.equal(permuted, torch.bincount(y[domain], minlength=3))
    assert not torch.equal(places, permuted_within_classes(y, generator))


def test_memorised_samples_say_nothing():
    assert not any(watched(1.0, share=0.9 * MEMORISED))
    assert watched(1.0, share=1.1 * MEMORISED)[-1] == 2


# --- closed forms, against the gradients themselves -------------------------------------------


def between(means: Tensor) -> Tensor:
    """(1/m) Σᵢ ‖x̄ᵢ − x̄‖² of means [m, …], domain by domain."""
    centre = sum(means) / len(means)
    return sum(((mean - centre) ** 2).sum() for mean in means) / len(means)


@pytest.mark.parametrize("block", [1, 1 << 19])
@pytest.mark.parametrize("domains", [1, 2, 5])
def test_contrasts_hold_all_differences_of_the_averaged_means(monkeypatch, domains, block):
    monkeypatch.setattr(disagreement, "BLOCK", block)
    generator = torch.Generator().manual_seed(0)
    contrasts, average = MovingContrasts(0.7), torch.zeros(domains, 12, dtype=torch.float64)
    for _ in range(4):
        r, e = (
            torch.randn(domains, 6, k, dtype=torch.float64, generator=generator) for k in (4, 3)
        )
        means = linear_head_gradients(r, e, bias=False).mean(dim=1)
        average = 0.7 * average + 0.3 * means
        found, mean = contrasts(r, e)
        torch.testing.assert_close(found, torch.as_tensor(between(average)), rtol=1e-10, atol=1e-14)
        torch.testing.assert_close(mean, means.mean(dim=0).square().sum(), rtol=1e-10, atol=0)
    assert contrasts.state_dict()["average"].shape == (domains - 1, 3, 4)


def test_factors_and_gradients_have_the_same_statistics():
    generator = torch.Generator().manual_seed(0)
    by_factors, by_gradients = Disagreement(), Disagreement()
    for seed in range(5):
        r, e = (torch.randn(3, 8, k, generator=generator) for k in (5, 4))
        y = torch.randint(2, (3, 8), generator=generator)
        held = linear_head_gradients(torch.cat([r, torch.ones(3, 8, 1)], dim=2), e, bias=False)
        factors = LinearGradients.of(r.flatten(0, 1), e.flatten(0, 1), [8] * 3)
        found = [
            shift(g, y, torch.tensor(0.5), torch.Generator().manual_seed(seed), warm=True)[1]
            for shift, g in ((by_factors, factors), (by_gradients, held))
        ]
        expected = held.flatten(0, 1).var(dim=0, correction=0).mean()
        torch.testing.assert_close(found, [expected, expected], rtol=1e-5, atol=0)
    ours, theirs = by_factors.state_dict(), by_gradients.state_dict()
    for name in ("own.average", "permuted.average"):
        torch.testing.assert_close(
            ours[name].flatten(1), theirs[name].flatten(1), rtol=1e-4, atol=1e-6
        )
    for name in ("noise.average", "variance.average"):
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-4, atol=0)
    assert theirs["noise.average"] > 0


def test_the_variance_of_equal_gradients_is_not_negative():
    g = torch.full((2, 4, 3), 1 / 3)
    y = torch.zeros(2, 4, dtype=torch.long)
    _, variance = Disagreement()(g, y, torch.tensor(0.5), torch.Generator(), warm=True)
    assert variance >= 0
