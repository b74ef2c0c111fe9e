"""Per-sample gradients of a linear head for losses of numbers: closed form and fast matcher."""

from __future__ import annotations

import pytest
import torch
from _internals import (
    LinearGradients,
    MovingMatch,
    functional_head_gradients,
    gradients_of,
    head_gradients,
    loss_named,
)
from torch import nn

from shiftproof import pdm

LOSSES = ["squared", "absolute", "huber:0.7", "quantile:0.8"]
CLOSE = {"rtol": 0, "atol": 1e-10}


def batch(bias: bool = True) -> tuple[nn.Linear, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    head = nn.Linear(5, 1, bias=bias).double()
    with torch.no_grad():
        for weight in head.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator, dtype=torch.float64))
    features = torch.randn(3, 16, 5, generator=generator, dtype=torch.float64)
    labels = torch.randn(3, 16, generator=generator, dtype=torch.float64)
    return head, features.requires_grad_(), labels


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", LOSSES)
def test_the_closed_form_is_that_of_torch_func(name, bias):
    head, features, labels = batch(bias)
    loss = loss_named(name)
    closed = head_gradients(head, features, labels, loss=loss)
    expected = functional_head_gradients(head, features, labels, loss)
    torch.testing.assert_close(closed, expected, **CLOSE)


def test_the_squared_loss_has_the_error_times_the_features():
    head, features, labels = batch()
    error = head(features).squeeze(-1) - labels
    ones = torch.ones_like(features[..., :1])
    expected = error.unsqueeze(-1) * torch.cat([features, ones], dim=-1)
    found = head_gradients(head, features, labels, loss=loss_named("squared"))
    torch.testing.assert_close(found, expected, **CLOSE)


@pytest.mark.parametrize("memory", [None, 0.5])
@pytest.mark.parametrize("name", LOSSES)
def test_the_fast_matcher_has_the_same_penalty_and_gradients(name, memory):
    """Two steps, so that a moving average has something to remember."""
    head, features, labels = batch()
    loss = loss_named(name)
    given = [features, *head.parameters()]
    found = []
    for gradients in (gradients_of, None):
        match = pdm if memory is None else MovingMatch(memory)
        for _ in range(2):
            if gradients is None:
                points = functional_head_gradients(head, features, labels, loss)
            else:
                points = gradients_of(head, features, labels, head(features), loss)
                assert isinstance(points, LinearGradients)
            penalty = match(points)
        # The slope of the quantile loss is constant, so the head may have no gradient at all.
        slopes = torch.autograd.grad(penalty, given, materialize_grads=True)
        found.append([penalty, *slopes])
    for fast, slow in zip(*found, strict=True):
        torch.testing.assert_close(fast, slow, **CLOSE)
