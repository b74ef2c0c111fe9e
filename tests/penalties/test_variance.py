"""Variances against NumPy; gradient spread against quadratics solved by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from _internals import (
    InvalidValue,
    gradient_spread,
    variance_across_domains,
    variance_within_domains,
)
from torch import nn


@pytest.mark.parametrize("shape", [(2,), (4,), (3, 5), (2, 3, 4)])
def test_across_domains_is_the_mean_squared_deviation_from_the_mean(shape):
    x = np.random.RandomState(len(shape)).randn(*shape)
    expected = np.mean([(row - sum(x) / len(x)) ** 2 for row in x])
    assert variance_across_domains(torch.from_numpy(x)).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("shape", [(2, 2, 1), (3, 6, 4), (4, 9, 2)])
def test_within_domains_is_unbiased_and_averaged(shape):
    x = np.random.RandomState(shape[1]).randn(*shape)
    expected = np.mean([np.var(domain, axis=0, ddof=1) for domain in x])
    assert variance_within_domains(torch.from_numpy(x)).item() == pytest.approx(expected, rel=1e-12)


def test_within_domains_ignores_where_a_domain_lies():
    x = torch.randn(3, 5, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    moved = x + torch.tensor([0.0, 10.0, -4.0], dtype=torch.float64).view(3, 1, 1)
    expected = variance_within_domains(x).item()
    assert variance_within_domains(moved).item() == pytest.approx(expected, rel=1e-12)


def test_one_sample_has_no_variance():
    with pytest.raises(InvalidValue, match="at least 2 samples"):
        variance_within_domains(torch.zeros(2, 1, 3))


class Quadratics(nn.Module):
    """Risks Lᵢ(θ) = ½ θᵀ Aᵢ θ, of gradients Aᵢ θ."""

    def __init__(self, domains, dims):
        super().__init__()
        generator = torch.Generator().manual_seed(domains)
        square = torch.randn(domains, dims, dims, generator=generator, dtype=torch.float64)
        self.matrices = square + square.mT
        self.theta = nn.Parameter(torch.randn(dims, generator=generator, dtype=torch.float64))

    def risks(self):
        return torch.einsum("i,mij,j->m", self.theta, self.matrices, self.theta) / 2


@pytest.mark.parametrize("domains", [2, 3, 4])
def test_gradient_spread_of_quadratics_and_its_derivative(domains):
    model = Quadratics(domains, dims=5)
    penalty = gradient_spread(model.risks(), model.parameters())
    deviation = model.matrices - model.matrices.mean(0)
    theta = model.theta.detach()
    assert penalty.item() == pytest.approx((deviation @ theta).square().sum().item(), rel=1e-12)
    (found,) = torch.autograd.grad(penalty, model.theta)
    expected = 2 * (deviation.mT @ (deviation @ theta).unsqueeze(-1)).sum(0).squeeze(-1)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_gradient_spread_counts_every_parameter_and_skips_frozen_and_idle_ones():
    model = Quadratics(3, dims=4)
    expected = gradient_spread(model.risks(), [model.theta]).item()
    frozen = nn.Parameter(torch.ones(2, dtype=torch.float64), requires_grad=False)
    idle = nn.Parameter(torch.ones(3, dtype=torch.float64))
    found = gradient_spread(model.risks(), [frozen, model.theta, idle])
    assert found.item() == pytest.approx(expected, rel=1e-12)
    slope = nn.Parameter(torch.tensor(2.0, dtype=torch.float64))
    risks = model.risks() + slope * torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    more = gradient_spread(risks, [model.theta, slope])
    assert more.item() == pytest.approx(expected + 2, rel=1e-12)  # (1−2)² + (2−2)² + (3−2)²
