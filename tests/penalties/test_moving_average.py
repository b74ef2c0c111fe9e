"""The moving average against its closed form, and as saved state."""

from __future__ import annotations

import io

import pytest
import torch
from _internals import MovingAverage
from torch import Tensor, nn

GAMMAS = pytest.mark.parametrize("gamma", [0.1, 0.5, 0.95])


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@GAMMAS
@pytest.mark.parametrize("corrected", [False, True])
def test_closed_form(gamma: float, corrected: bool) -> None:
    """x̄ₜ = (1 − γ) Σₛ γ^(t−s) xₛ; corrected, the factor 1 − γ is gone."""
    average = MovingAverage(gamma, corrected=corrected)
    seen: list[Tensor] = []
    for t in range(6):
        seen.append(normal(3, 4, seed=t))
        weighted = sum(gamma ** (t - s) * x for s, x in enumerate(seen))
        expected = weighted if corrected else (1 - gamma) * weighted
        torch.testing.assert_close(average(seen[-1]), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("corrected", [False, True])
def test_gamma_zero_passes_the_newest_through(corrected: bool) -> None:
    average = MovingAverage(0.0, corrected=corrected)
    for shape in [(2, 3), (5,)]:
        x = normal(*shape, seed=0)
        assert torch.equal(average(x), x)
    assert not average.state_dict()


@GAMMAS
def test_the_gradient_reaches_the_newest_term_only(gamma: float) -> None:
    for corrected, slope in [(False, 1 - gamma), (True, 1.0)]:
        average = MovingAverage(gamma, corrected=corrected)
        old, new = (normal(4, seed=i).requires_grad_() for i in range(2))
        average(old).sum().backward()
        assert old.grad is not None
        before = old.grad.clone()
        average(new).sum().backward()
        torch.testing.assert_close(new.grad, torch.full_like(new, slope), rtol=1e-12, atol=0)
        assert torch.equal(old.grad, before)


def test_the_remembered_average_is_not_corrected_twice() -> None:
    plain, corrected = MovingAverage(0.8), MovingAverage(0.8, corrected=True)
    for t in range(4):
        x = normal(3, seed=t)
        torch.testing.assert_close(corrected(x), plain(x) / (1 - 0.8), rtol=1e-12, atol=0)
    assert torch.equal(plain.state_dict()["average"], corrected.state_dict()["average"])


def test_state_is_a_detached_buffer_of_the_average() -> None:
    average = MovingAverage(0.5)
    assert not average.state_dict()
    average(torch.tensor([4.0], dtype=torch.float64, requires_grad=True))
    assert not list(average.parameters())
    (saved,) = average.state_dict().values()
    assert torch.equal(saved, torch.tensor([2.0], dtype=torch.float64))
    assert not saved.requires_grad
    (cast,) = average.float().state_dict().values()
    assert cast.dtype == torch.float32


def test_state_travels_inside_a_larger_model_bit_for_bit() -> None:
    def model() -> nn.ModuleDict:
        return nn.ModuleDict(
            {"linear": nn.Linear(2, 2).double(), "a": MovingAverage(0.9), "b": MovingAverage(0.3)}
        )

    source = model()
    for t in range(3):
        source["a"](normal(2, 5, seed=t))
    file = io.BytesIO()
    torch.save(source.state_dict(), file)
    file.seek(0)
    target = model()
    target["b"](normal(7, seed=0))  # used, while the source's is fresh
    target.load_state_dict(torch.load(file, weights_only=True))
    x, y = normal(2, 5, seed=9), normal(3, seed=9)
    assert torch.equal(target["a"](x), source["a"](x))
    assert torch.equal(target["b"](y), MovingAverage(0.3)(y))
    assert torch.equal(target["linear"].weight, source["linear"].weight)


def test_loading_replaces_an_average_of_another_shape() -> None:
    source, target = MovingAverage(0.9), MovingAverage(0.9)
    source(normal(2, 5, seed=0))
    target(normal(3, seed=1))
    target.load_state_dict(source.state_dict())
    x = normal(2, 5, seed=2)
    assert torch.equal(target(x), source(x))


def test_a_loaded_average_follows_the_data_to_its_device() -> None:
    """A checkpoint read on the CPU must continue on a model elsewhere (here: ``meta``)."""
    source = MovingAverage(0.9)
    source(normal(2, 3, seed=0))
    elsewhere = MovingAverage(0.9).to("meta")
    elsewhere.load_state_dict(source.state_dict())
    x = torch.zeros(2, 3, dtype=torch.float64, device="meta")
    assert elsewhere(x).device.type == "meta"
    assert elsewhere(x).device.type == "meta"
