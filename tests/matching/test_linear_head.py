"""Matching the gradients of a linear head block by block, against the straightforward version."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from _internals import (
    LinearGradients,
    MovingMatch,
    gradients_of,
    matching_gradients as gradients,
    matching_linear_head as linear_head,
)
from torch import nn

from benchmarks import plain as straightforward
from benchmarks.plain import PlainMatch, plain_gradients
from shiftproof import pdm


def setting(
    m: int, b: int, k: int, c: int, dtype: torch.dtype, bias: bool = True
) -> tuple[nn.Linear, list[tuple[torch.Tensor, torch.Tensor]]]:
    torch.manual_seed(0)
    head = nn.Linear(k, c, bias=bias, dtype=dtype)
    steps = [(torch.randn(m, b, k, dtype=dtype), torch.randint(c, (m, b))) for _ in range(3)]
    return head, steps


blocks = pytest.mark.parametrize("block", [1, 200, 1 << 20])


@pytest.mark.parametrize("gamma", [0.0, 0.9])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(("trim", "corrected", "bias"), [(0, True, True), (2, False, False)])
@blocks
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
    monkeypatch.setattr(gradients, "BLOCK", block)
    head, steps = setting(3, 8, 5, 4, dtype, bias)
    match = MovingMatch(gamma, order, trim, corrected=corrected)
    plain = PlainMatch(gamma, order, trim, corrected=corrected)
    for features, labels in steps:
        outcomes = []
        for way in ("fast", "plain"):
            r = features.clone().requires_grad_()
            if way == "fast":
                penalty = match(gradients_of(head, r, labels, head(r)))
            else:
                penalty = plain(plain_gradients(head, r, labels))
            slopes = torch.autograd.grad(3 * penalty, [r, *head.parameters()])
            outcomes.append((penalty.detach(), *slopes))
        for fast, slow in zip(*outcomes, strict=True):
            torch.testing.assert_close(fast, slow, rtol=rtol, atol=rtol * 1e-2)
    if gamma:
        # Ours has the bias of an output after its weights, and is not divided by 1 − γ.
        average = plain.average.transpose(1, 2) / (1 - gamma)
        weights, biases = average.split([20, average.shape[1] - 20], dim=1)
        parts = [weights.unflatten(1, (4, 5)), biases.unsqueeze(2)] if bias else [weights]
        expected = torch.cat(parts, dim=2).flatten(1, 2) if bias else weights
        torch.testing.assert_close(match.sums, expected, rtol=rtol, atol=rtol * 10)


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_derivative_can_be_asked_for_twice(outputs: int) -> None:
    torch.manual_seed(0)
    r, e = torch.randn(12, 4, requires_grad=True), torch.randn(12, outputs, requires_grad=True)
    penalty = pdm(LinearGradients.of(r, e, [6, 6]))
    first = torch.autograd.grad(5 * penalty, [r, e], retain_graph=True)
    second = torch.autograd.grad(5 * penalty, [r, e])
    assert all(map(torch.equal, first, second))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("block", [12, 30, 1 << 20])
def test_many_blocks_with_all_outputs_each(
    monkeypatch: pytest.MonkeyPatch, threads: int, outputs: int, block: int
) -> None:
    """The derivative then replaces the features; threads share it.  Against sorted e rᵀ itself."""
    monkeypatch.setattr(gradients, "BLOCK", block)
    monkeypatch.setattr(linear_head, "_WORTH_A_THREAD", 1)
    torch.manual_seed(0)
    r = torch.randn(12, 9, dtype=torch.float64, requires_grad=True)
    e = torch.randn(12, outputs, dtype=torch.float64, requires_grad=True)
    kept = r.detach().clone()
    ones = torch.cat([r, torch.ones_like(r[:, :1])], dim=1)
    points = (e[:, :, None] * ones[:, None, :]).view(2, 6, -1).sort(dim=1).values
    plain = (points - points.mean(dim=0)).square().mean()
    expected = [plain, *torch.autograd.grad(7 * plain, [r, e])]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        penalty = pdm(LinearGradients.of(r, e, [6, 6]))
        found = [penalty, *torch.autograd.grad(7 * penalty, [r, e])]
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-15)
    assert torch.equal(r, kept)


def test_half_precision_is_widened_first() -> None:
    torch.manual_seed(0)
    r, e = torch.randn(12, 4).bfloat16(), torch.randn(12, 3).bfloat16()
    found = pdm(LinearGradients.of(r, e, [6, 6]))
    assert found.dtype == torch.float32
    assert found == pdm(LinearGradients.of(r.float(), e.float(), [6, 6]))


def test_the_number_of_threads_changes_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradients, "BLOCK", 200)
    head, steps = setting(3, 8, 5, 4, torch.float64)
    features, labels = steps[0]
    found = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            r = features.clone().requires_grad_()
            penalty = MovingMatch(0.5)(gradients_of(head, r, labels, head(r)))
            found.append((penalty.detach(), *torch.autograd.grad(penalty, r)))
    finally:
        torch.set_num_threads(before)
    for one, many in zip(*found, strict=True):
        torch.testing.assert_close(one, many, rtol=1e-12, atol=1e-15)


def test_the_plain_version_uses_nothing_of_the_fast_one() -> None:
    assert "import shiftproof" not in (source := Path(straightforward.__file__).read_text("utf-8"))
    assert "from shiftproof" not in source
