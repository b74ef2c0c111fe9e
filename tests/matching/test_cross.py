"""PDM against earlier batches alone: unbiased where domains are alike, and its gradient."""

from __future__ import annotations

import pytest
import torch
from _internals import CrossMatch, LinearGradients, MovingMatch, linear_head_gradients


def drawn(seed: int, gap: float = 0.0, size: int = 16) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, size, 3, generator=generator, dtype=torch.float64)
    return x + gap * torch.arange(2).view(-1, 1, 1)


def centred(x: torch.Tensor) -> torch.Tensor:
    ranked = x.sort(dim=1).values
    return ranked - ranked.mean(dim=0)


@pytest.mark.parametrize("corrected", [True, False])
def test_the_gradient_is_that_of_the_product_with_the_past(corrected):
    gamma = 0.7
    match = CrossMatch(gamma, corrected=corrected)
    past = torch.zeros(2, 16, 3, dtype=torch.float64)
    for seed in range(4):
        x = drawn(seed).requires_grad_()
        (found,) = torch.autograd.grad(match(x), x)
        product = 2 * gamma * (centred(x) * past).sum() / x.numel()
        scale = 1.0 if corrected else (1 - gamma) ** 2
        expected = torch.autograd.grad(scale * product, x)[0]
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-12)
        past = centred(x).detach() + gamma * past


def slope(match: MovingMatch, gap: float) -> float:
    """The mean derivative of the penalty by the scale of the newest points, over 400 batches."""
    found = []
    for seed in range(400):
        scale = torch.ones((), dtype=torch.float64, requires_grad=True)
        penalty = match(scale * drawn(seed, gap))
        found.append(torch.autograd.grad(penalty, scale)[0].item())
    return sum(found) / len(found)


def test_alike_domains_are_not_pulled_to_zero():
    """PDM of finite batches would shrink alike points; the product with the past does not."""
    biased, unbiased = slope(MovingMatch(0.5), 0.0), slope(CrossMatch(0.5), 0.0)
    assert biased > 0
    assert abs(unbiased) < 0.2 * biased
    assert slope(CrossMatch(0.5), 1.0) > biased


def test_factors_of_a_linear_head_have_the_same_penalty():
    generator = torch.Generator().manual_seed(0)
    one, other = CrossMatch(0.8), CrossMatch(0.8)
    for _ in range(3):
        r, e = (torch.randn(12, k, generator=generator) for k in (4, 3))
        factors = LinearGradients.of(r, e, (6, 6))
        held = linear_head_gradients(r, e).view(2, 6, -1)
        torch.testing.assert_close(one(factors), other(held), rtol=1e-4, atol=1e-6)
