"""Domains that are absent, alone or new: what is remembered of them, and how it fades."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch import Tensor

from shiftproof import InterDomainMatching


def only_features(gamma: float) -> InterDomainMatching:
    return InterDomainMatching(0, 1, representation_ema=gamma)


def match(matching: InterDomainMatching, values: list[float], domains: list[int]) -> float:
    return penalty_of(matching, torch.tensor(values, dtype=torch.float64), domains).item()


def penalty_of(matching: InterDomainMatching, values: Tensor, domains: list[int]) -> Tensor:
    labels = torch.zeros(len(values), dtype=torch.long)
    result: Tensor = matching(values[:, None], torch.zeros(len(values), 2), labels, domains)
    return result


def test_an_absent_domain_counts_by_what_is_remembered_and_fades() -> None:
    """By hand, γ = 1/2: S = (2, 2), w = (3/2, 1/2), so x̄ = 2 and S − w x̄ = (−1, 1)."""
    matching = only_features(0.5)
    assert match(matching, [0.0, 4.0], [10, 20]) == pytest.approx(4)
    x = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
    penalty = penalty_of(matching, x, [10])
    penalty.backward()
    assert penalty.item() == pytest.approx(1)
    # ∂(S − w x̄)/∂x = (1 − 3/4, −1/4), and the penalty is the mean of squares.
    assert x.grad.item() == pytest.approx(-0.5)
    # Once more: S = (3, 1), w = (7/4, 1/4), x̄ = 2, so S − w x̄ = (−1/2, 1/2).
    assert match(matching, [2.0], [10]) == pytest.approx(0.25)


def test_an_absent_domain_does_not_count_without_memory() -> None:
    matching = only_features(0.0)
    three = match(matching, [0.0, 4.0, 100.0], [1, 2, 3])
    assert three > 100
    assert match(matching, [0.0, 4.0], [1, 2]) == pytest.approx(4)


def test_a_new_domain_comes_in_as_gently_as_the_first_did() -> None:
    """By hand, γ = 1/2: S = (0, 0, 6), w = (3/2, 3/2, 1), so x̄ = 3/2."""
    matching = only_features(0.5)
    match(matching, [0.0, 0.0], [1, 2])
    expected = (2.25**2 + 2.25**2 + 4.5**2) / 3
    assert match(matching, [0.0, 0.0, 6.0], [1, 2, 3]) == pytest.approx(expected)


def test_domains_that_agree_have_penalty_0_however_they_come_and_go() -> None:
    matching = only_features(0.9)
    generator = torch.Generator().manual_seed(0)
    for _ in range(30):
        count = int(torch.randint(1, 5, (), generator=generator))
        domains = torch.randperm(4, generator=generator)[:count].tolist()
        assert match(matching, [3.0, 5.0] * count, [d for d in domains for _ in "ab"]) < 1e-24


@pytest.mark.parametrize("gamma", [0.0, 0.9])
@pytest.mark.parametrize("order", [1, 2])
def test_one_domain_alone_has_penalty_0_with_a_gradient_of_0(gamma: float, order: int) -> None:
    torch.manual_seed(0)
    features = torch.randn(6, 4, requires_grad=True)
    logits = torch.randn(6, 3, requires_grad=True)
    matching = InterDomainMatching(
        gradient_warmup=0, gradient_ema=gamma, representation_ema=gamma, order=order
    )
    for step in range(3):
        features.grad = logits.grad = None
        # The second batch shows that no other domain comes; that is said once.
        expected = (
            pytest.warns(UserWarning, match="of one domain, 5") if step == 1 else nullcontext()
        )
        with expected:
            penalty = matching(features, logits, torch.randint(3, (6,)), [5] * 6)
        penalty.backward()
        assert penalty.item() == pytest.approx(0, abs=1e-9)
        assert features.grad.abs().max() < 1e-4
        assert logits.grad.abs().max() < 1e-4


def test_one_domain_a_batch_is_matched_with_those_before_it() -> None:
    matching = only_features(0.9)
    assert match(matching, [0.0], [1]) == 0
    assert match(matching, [1.0], [2]) > 0
    assert only_features(0.0)(torch.ones(1, 1), torch.zeros(1, 2), torch.tensor([0]), [2]) == 0


def test_in_the_warm_up_the_penalty_is_0_with_a_gradient() -> None:
    matching = InterDomainMatching(representation_warmup=5)
    features = torch.randn(4, 2, requires_grad=True)
    penalty = matching(features, torch.randn(4, 2), torch.tensor([0, 1, 0, 1]), [1, 1, 2, 2])
    penalty.backward()
    assert penalty.item() == 0
    assert torch.equal(features.grad, torch.zeros(4, 2))


def test_in_evaluation_nothing_is_remembered() -> None:
    matching, untouched = only_features(0.5), only_features(0.5)
    for each in (matching, untouched):
        match(each, [0.0, 4.0], [1, 2])
    matching.eval()
    first = match(matching, [9.0, 1.0, 5.0], [1, 2, 3])
    assert match(matching, [9.0, 1.0, 5.0], [1, 2, 3]) == first
    assert matching.steps == 1
    matching.train()
    assert match(matching, [1.0, 2.0], [1, 2]) == match(untouched, [1.0, 2.0], [1, 2])


def test_without_a_check_nan_is_not_remembered() -> None:
    matching, untouched = only_features(0.5), only_features(0.5)
    matching.check = False
    for each in (matching, untouched):
        match(each, [0.0, 4.0], [1, 2])
    assert match(matching, [float("nan"), 4.0], [1, 2]) != 0
    assert match(matching, [1.0, 2.0], [1, 2]) == match(untouched, [1.0, 2.0], [1, 2])
