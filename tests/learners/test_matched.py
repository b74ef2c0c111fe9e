"""Matched networks side by side have the penalties of IDM, each of its own domains."""

from __future__ import annotations

import pytest
import torch
from _internals import MatchedProblems, logits_of, trained_networks

from shiftproof import InterDomainMatching

SEEDS, DOMAINS, ROWS, WIDTH = 2, 3, 8, 5


def batch(classes: int, problems: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shape = (problems * SEEDS, DOMAINS * ROWS)
    hidden = torch.randn(*shape, WIDTH, generator=generator, dtype=torch.float64)
    logits = torch.randn(*shape, classes, generator=generator, dtype=torch.float64)
    return hidden, logits, torch.randint(classes, (shape[1],), generator=generator)


def apart(
    hidden: torch.Tensor, logits: torch.Tensor, labels: torch.Tensor, used: list[int]
) -> tuple[float, float]:
    """Return L_G and L_R of one network, by the module for any training loop."""
    domains = torch.arange(DOMAINS).repeat_interleave(ROWS)
    rows = torch.isin(domains, torch.tensor(used))
    matching = InterDomainMatching(1.0, 1.0, gradient_warmup=0, gradient_ema=0)
    matching(hidden[rows], logits[rows], labels[rows], domains[rows])
    parts = matching.measured
    return float(parts["gradient_penalty"]), float(parts["representation_penalty"])


@pytest.mark.parametrize("classes", [2, 3])
def test_penalties_are_those_of_each_network_alone(classes):
    used = [[0, 1], [0, 1, 2], [1, 2], [2]]
    mask = torch.tensor([[d in own for d in range(DOMAINS)] for own in used])
    matching = MatchedProblems(mask, SEEDS)
    hidden, logits, labels = batch(classes, len(used))
    risks = torch.tensor([0.3, 0.5, 0.7, 0.9], dtype=torch.float64)
    first = matching(hidden, logits, labels, risks)
    # At first each penalty, averaged over the seeds of a problem, is as large as its risk.
    assert float(first) == pytest.approx(2 * SEEDS * (0.3 + 0.5 + 0.7))
    again = matching(2 * hidden, logits, labels, 10 * risks)
    expected = 0.0
    for problem, own in enumerate(used[:3]):
        networks = range(problem * SEEDS, (problem + 1) * SEEDS)
        before = [apart(hidden[n], logits[n], labels, own) for n in networks]
        after = [apart(2 * hidden[n], logits[n], labels, own) for n in networks]
        for term in range(2):
            weight = float(risks[problem]) / (sum(parts[term] for parts in before) / SEEDS)
            expected += weight * sum(parts[term] for parts in after)
    assert float(again) == pytest.approx(expected)


def test_matched_networks_trained_together_are_those_trained_apart():
    generator = torch.Generator().manual_seed(0)
    domain = torch.arange(90) % 3
    y = torch.randint(2, (90,), generator=generator)
    x = torch.randn(90, 3, generator=generator) + y[:, None] * (1 + domain[:, None])
    weights = torch.stack([domain != 0, domain != 1, domain >= 0]).float()
    (together,) = trained_networks(x, y, weights, (3, 8, 8, 2), 1, [20], 0, domain)
    for problem in range(3):
        (alone,) = trained_networks(x, y, weights[[problem]], (3, 8, 8, 2), 1, [20], 0, domain)
        own = logits_of(together, x)[[problem]]
        assert own.numpy() == pytest.approx(logits_of(alone, x).numpy(), abs=1e-4)
    (plain,) = trained_networks(x, y, weights[[2]], (3, 8, 8, 2), 1, [20], 0)
    assert (logits_of(plain, x) - logits_of(together, x)[[2]]).abs().max() > 1e-2


def test_rows_of_another_problem_change_nothing():
    domain = torch.arange(60) % 3
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(60, 3, generator=generator), torch.arange(60) // 3 % 2
    weights = (domain != 2).float()[None]
    (before,) = trained_networks(x, y, weights, (3, 8, 8, 2), 1, [10], 0, domain)
    x[domain == 2] = 50.0
    (after,) = trained_networks(x, y, weights, (3, 8, 8, 2), 1, [10], 0, domain)
    assert all((a[0] == b[0]).all() for a, b in zip(before, after, strict=True))
