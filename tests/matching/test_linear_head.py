"""Matching the gradients of a linear head block by block, against the straightforward version."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from shiftproof.bench import plain as straightforward
from shiftproof.bench.plain import PlainMatch, plain_gradients
from shiftproof.matching import linear_head as linear_match
from shiftproof.matching.pdm import MovingMatch
from shiftproof.models.risk import logit_residual


def setting(
    m: int, b: int, k: int, c: int, dtype: torch.dtype, bias: bool = True
) -> tuple[nn.Linear, list[tuple[torch.Tensor, torch.Tensor]]]:
    torch.manual_seed(0)
    head = nn.Linear(k, c, bias=bias, dtype=dtype)
    steps = [(torch.randn(m, b, k, dtype=dtype), torch.randint(c, (m, b))) for _ in range(3)]
    return head, steps


@pytest.mark.parametrize("gamma", [0.0, 0.9])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(("trim", "corrected", "bias"), [(0, True, True), (2, False, False)])
@pytest.mark.parametrize("block", [1, 200, 1 << 20])
@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float64, 1e-10), (torch.float32, 2e-5)])
def test_values_gradients_and_memory_are_the_plain_ones(
    monkeypatch: pytest.MonkeyPatch,
    gamma: float,
    order: int,
    trim: int,
    corrected: bool,
    bias: bool,
    block: int,
    dtype: torch.dtype,
    rtol: float,
) -> None:
    monkeypatch.setattr(linear_match, "BLOCK", block)
    head, steps = setting(3, 8, 5, 4, dtype, bias)
    match = MovingMatch(gamma, order, trim, corrected=corrected)
    plain = PlainMatch(gamma, order, trim, corrected=corrected)
    for features, labels in steps:
        outcomes = []
        for way in ("fast", "plain"):
            r = features.clone().requires_grad_()
            if way == "fast":
                penalty = match.of_linear_head(r, logit_residual(head(r), labels), bias=bias)
            else:
                penalty = plain(plain_gradients(head, r, labels))
            slopes = torch.autograd.grad(3 * penalty, [r, *head.parameters()])
            outcomes.append((penalty.detach(), *slopes))
        for fast, slow in zip(*outcomes, strict=True):
            torch.testing.assert_close(fast, slow, rtol=rtol, atol=rtol * 1e-2)
    if gamma:
        torch.testing.assert_close(match.average.average, plain.average, rtol=rtol, atol=rtol)


def test_without_need_of_a_gradient_none_is_made() -> None:
    head, [(features, labels), *_] = setting(2, 6, 4, 3, torch.float32)
    match = MovingMatch(0.9, corrected=True)
    residual = logit_residual(head(features), labels)
    wanted = MovingMatch(0.9, corrected=True).of_linear_head(features, residual)
    found = match.of_linear_head(features, residual.detach())
    assert wanted.requires_grad
    assert not found.requires_grad
    assert torch.equal(found, wanted.detach())


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_derivative_can_be_asked_for_twice(outputs: int) -> None:
    """With one output, turning [m, 1, b] round copies nothing: what is saved must stay as it is."""
    torch.manual_seed(0)
    r, e = torch.randn(2, 6, 4, requires_grad=True), torch.randn(2, 6, outputs, requires_grad=True)
    penalty = MovingMatch(0.0).of_linear_head(r, e)
    first = torch.autograd.grad(5 * penalty, [r, e], retain_graph=True)
    second = torch.autograd.grad(5 * penalty, [r, e])
    assert all(map(torch.equal, first, second))


def test_memory_from_a_checkpoint_and_other_batch_sizes() -> None:
    head, steps = setting(2, 6, 4, 3, torch.float64)
    first, second = MovingMatch(0.9, corrected=True), MovingMatch(0.9, corrected=True)
    for match in (first, second):
        for features, labels in steps[:2]:
            match.of_linear_head(features, logit_residual(head(features), labels))
    saved = {key: value.clone().contiguous() for key, value in second.state_dict().items()}
    second = MovingMatch(0.9, corrected=True)
    second.load_state_dict(saved)
    features, labels = steps[2]
    penalties = [
        match.of_linear_head(features, logit_residual(head(features), labels))
        for match in (first, second)
    ]
    assert torch.equal(*penalties)
    assert torch.equal(first.average.average, second.average.average)
    # A batch of another size goes the way of whole gradients, into the same memory.
    fewer = first.of_linear_head(features[:, :4], logit_residual(head(features), labels)[:, :4])
    gradients = plain_gradients(head, features[:, :4], labels[:, :4])
    torch.testing.assert_close(fewer, second(gradients))


def test_half_precision_is_widened_first() -> None:
    head, [(features, labels), *_] = setting(2, 6, 4, 3, torch.float32)
    residual = logit_residual(head(features), labels).detach()
    r, e = features.bfloat16(), residual.bfloat16()
    found = MovingMatch(0.0).of_linear_head(r, e)
    assert found == MovingMatch(0.0).of_linear_head(r.float(), e.float())


def test_the_plain_version_uses_nothing_of_the_fast_one() -> None:
    assert "import shiftproof" not in (source := Path(straightforward.__file__).read_text("utf-8"))
    assert "from shiftproof" not in source
