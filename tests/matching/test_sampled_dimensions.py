"""Some dimensions in place of all: which, how good an estimate, and that it survives a stop."""

from __future__ import annotations

import pytest
import torch
from _internals import (
    LinearGradients,
    SampledDimensions,
    build,
    linear_head_gradients,
    problem,
    take_steps,
)

from shiftproof import pdm


@pytest.mark.parametrize("bias", [True, False])
def test_some_gradients_are_those_of_all(bias: bool) -> None:
    torch.manual_seed(0)
    features, residual = torch.randn(10, 7), torch.randn(10, 3)
    whole = linear_head_gradients(features, residual, bias=bias)
    factors = LinearGradients.of(features, residual, [5, 5], bias=bias)
    dims = torch.randperm(factors.dims)
    assert factors.dims == whole.shape[1]
    assert torch.equal(factors.some(dims), whole[:, dims])


def test_the_estimate_is_unbiased_and_as_precise_as_promised() -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 16, 60, dtype=torch.float64) * torch.linspace(0.1, 2, 60) ** 2
    exact = pdm(x).item()
    single = torch.stack([pdm(x[..., [i]]) for i in range(60)])
    generator = torch.Generator().manual_seed(1)
    sampled = SampledDimensions(12, redrawn=True)
    found = torch.stack([pdm(x[..., sampled.drawn(60, generator)]) for _ in range(4000)])
    # Of a finite population: s² with n − 1.
    expected = (single.var() / 12 * (1 - 12 / 60)).sqrt().item()
    assert found.std().item() == pytest.approx(expected, rel=0.05)
    assert found.mean().item() == pytest.approx(exact, abs=4 * expected / 4000**0.5)


def test_all_dimensions_are_all() -> None:
    generator = torch.Generator().manual_seed(0)
    assert torch.equal(SampledDimensions(99, redrawn=True).drawn(7, generator), torch.arange(7))


@pytest.mark.parametrize("gamma", [0.0, 0.9])
@pytest.mark.parametrize("nonlinear_head", [False, True])
def test_idm_goes_on_after_a_stop_with_the_same_dimensions(
    gamma: float, nonlinear_head: bool
) -> None:
    data = problem()
    settings = {"gradient_dimensions": 5, "gradient_ema": gamma, "gradient_warmup": 0}

    def new():
        return build("idm", data, settings, nonlinear_head=nonlinear_head)

    straight = new()
    take_steps(straight, data, steps=6)
    first, second = new(), new()
    take_steps(first, data, steps=3)
    second.load_training_state(first.training_state())
    take_steps(second, data, steps=3, start=3)
    for name, value in straight.state_dict().items():
        assert torch.equal(value, second.state_dict()[name]), name
    if gamma:
        term = straight.terms["gradient"]
        assert len(term.points.dims) == 5
        assert term.match.sums.shape[1] == 5
