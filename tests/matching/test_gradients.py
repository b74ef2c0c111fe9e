"""Per-sample head gradients: closed form, torch.func and a plain autograd loop agree."""

from __future__ import annotations

import pytest
import torch
from _internals import (
    functional_head_gradients,
    head_gradients,
    linear_head_gradients,
    logit_residual,
)
from torch import Tensor, nn
from torch.func import functional_call

DOMAINS, BATCH, FEATURES = 3, 4, 5
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def linear(outputs: int, bias: bool = True) -> nn.Module:
    return nn.Linear(FEATURES, outputs, bias=bias)


def perceptron(outputs: int, activation: type[nn.Module] = nn.ReLU) -> nn.Module:
    return nn.Sequential(
        nn.Linear(FEATURES, 6), activation(), nn.Linear(6, 3, bias=False), activation(),
        nn.Linear(3, outputs),
    )  # fmt: skip


HEADS = {
    "linear": lambda: linear(4),
    "linear-two-classes": lambda: linear(2),
    "linear-one-logit": lambda: linear(1),
    "linear-no-bias": lambda: linear(4, bias=False),
    "linear-one-logit-no-bias": lambda: linear(1, bias=False),
    "mlp": lambda: perceptron(4),
    "mlp-one-logit": lambda: perceptron(1),
    "mlp-smooth": lambda: perceptron(3, nn.Tanh),
}
LINEAR = [name for name in HEADS if name.startswith("linear")]
every_head = pytest.mark.parametrize("name", HEADS)


def make(name: str) -> tuple[nn.Module, Tensor, Tensor]:
    """Return a head with random weights and biases, features and labels, in float64."""
    generator = torch.Generator().manual_seed(list(HEADS).index(name))
    head = HEADS[name]().double()
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.normal_(generator=generator)
    features = torch.randn(DOMAINS, BATCH, FEATURES, dtype=torch.float64, generator=generator)
    outputs = head(features).shape[-1]
    labels = torch.randint(max(outputs, 2), (DOMAINS, BATCH), generator=generator)
    return head, features.requires_grad_(), labels


def looped(head: nn.Module, features: Tensor, labels: Tensor) -> Tensor:
    """One backward pass per sample, with the loss written out."""
    rows = []
    for feature, label in zip(features.flatten(0, 1), labels.flatten(), strict=True):
        logits = head(feature)
        if len(logits) == 1:
            logits = torch.cat([torch.zeros_like(logits), logits])
        loss = logits.logsumexp(0) - logits[label]
        parts = torch.autograd.grad(loss, list(head.parameters()), create_graph=True)
        rows.append(torch.cat([part.flatten() for part in parts]))
    return torch.stack(rows).view(*labels.shape, -1)


def closed(head: nn.Linear, features: Tensor, labels: Tensor) -> Tensor:
    residual = logit_residual(head(features), labels)
    return linear_head_gradients(features, residual, bias=head.bias is not None)


@every_head
def test_all_ways_agree(name: str) -> None:
    head, features, labels = make(name)
    expected = looped(head, features, labels)
    assert expected.shape[-1] == sum(p.numel() for p in head.parameters())
    assert expected.abs().max() > 0.1
    torch.testing.assert_close(head_gradients(head, features, labels), expected, **CLOSE)
    torch.testing.assert_close(functional_head_gradients(head, features, labels), expected, **CLOSE)
    if name in LINEAR:
        torch.testing.assert_close(closed(head, features, labels), expected, **CLOSE)


@every_head
def test_given_logits_change_nothing(name: str) -> None:
    head, features, labels = make(name)
    given = head_gradients(head, features, labels, head(features))
    assert torch.equal(given, head_gradients(head, features, labels))


@pytest.mark.parametrize("name", LINEAR)
def test_given_logits_stay_in_the_graph(name: str) -> None:
    """The penalty must reach the head through logits that the caller computed."""
    head, features, labels = make(name)
    expected = second_order(head, features, head_gradients(head, features, labels))
    given = head_gradients(head, features, labels, head(features))
    for ours, theirs in zip(second_order(head, features, given), expected, strict=True):
        torch.testing.assert_close(ours, theirs, **CLOSE)


def second_order(head: nn.Module, features: Tensor, gradients: Tensor) -> tuple[Tensor, ...]:
    """Differentiate a nonlinear scalar of the gradients by the features and the head."""
    generator = torch.Generator().manual_seed(99)
    weights = torch.randn(gradients.shape, dtype=gradients.dtype, generator=generator)
    scalar = (weights * gradients.square()).sum() + (weights * gradients).sin().sum()
    return torch.autograd.grad(scalar, [features, *head.parameters()], materialize_grads=True)


@every_head
def test_second_order_gradients_agree(name: str) -> None:
    head, features, labels = make(name)
    expected = second_order(head, features, looped(head, features, labels))
    assert expected[0].abs().max() > 0.1
    assert expected[1].abs().max() > 0.1
    ways = [head_gradients, functional_head_gradients] + ([closed] if name in LINEAR else [])
    for way in ways:
        ours = second_order(head, features, way(head, features, labels))
        for part, reference in zip(ours, expected, strict=True):
            torch.testing.assert_close(part, reference, **CLOSE)


@pytest.mark.parametrize("name", [*LINEAR, "mlp-smooth"])
@pytest.mark.parametrize("way", [head_gradients, functional_head_gradients])
def test_finite_differences_by_features_and_head(name: str, way: object) -> None:
    """First and second derivatives of G, so third ones of the risk: smooth heads only."""
    head, features, labels = make(name)
    features = features.detach()[:2, :2].requires_grad_()
    labels = labels[:2, :2]
    names = [key for key, _ in head.named_parameters()]
    values = tuple(p.detach().clone().requires_grad_() for p in head.parameters())

    def gradients(features: Tensor, *values: Tensor) -> Tensor:
        # The module itself must hold the values, as head_gradients reads its parameters.
        return functional_call(Reader(head, labels, way), prefixed(names, values), (features,))

    assert torch.autograd.gradcheck(gradients, (features, *values), fast_mode=True)
    assert torch.autograd.gradgradcheck(gradients, (features, *values), fast_mode=True)


class Reader(nn.Module):
    """Calls `way` on a head whose parameters `functional_call` swaps in."""

    def __init__(self, head: nn.Module, labels: Tensor, way: object) -> None:
        super().__init__()
        self.head, self.labels, self.way = head, labels, way

    def forward(self, features: Tensor) -> Tensor:
        return self.way(self.head, features, self.labels)


def prefixed(names: list[str], values: tuple[Tensor, ...]) -> dict[str, Tensor]:
    return {f"head.{name}": value for name, value in zip(names, values, strict=True)}


def test_each_sample_is_on_its_own() -> None:
    """Changing one sample leaves the gradients of all others untouched."""
    for name in HEADS:
        head, features, labels = make(name)
        before = head_gradients(head, features, labels)
        changed = features.detach().clone()
        changed[1, 2] += 1.0
        after = head_gradients(head, changed, labels)
        untouched = torch.ones(DOMAINS, BATCH, dtype=torch.bool)
        untouched[1, 2] = False
        torch.testing.assert_close(after[untouched], before[untouched], **CLOSE)
        assert not torch.allclose(after[1, 2], before[1, 2])


def test_the_mean_of_sample_gradients_is_the_gradient_of_the_mean() -> None:
    for name in HEADS:
        head, features, labels = make(name)
        logits = head(features)
        if logits.shape[-1] == 1:
            logits = torch.cat([torch.zeros_like(logits), logits], dim=-1)
        risk = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        parts = torch.autograd.grad(risk, list(head.parameters()))
        expected = torch.cat([part.flatten() for part in parts])
        ours = head_gradients(head, features, labels).mean(dim=(0, 1))
        torch.testing.assert_close(ours, expected, **CLOSE)


def test_dropout_in_the_head_draws_a_mask_per_sample() -> None:
    head = nn.Sequential(nn.Dropout(0.5), nn.Linear(50, 2)).double()
    features = torch.ones(2, 3, 50, dtype=torch.float64)
    labels = torch.zeros(2, 3, dtype=torch.long)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        gradients = head_gradients(head, features, labels)
    kept = gradients[..., :50] != 0
    assert 0 < kept.sum() < kept.numel()
    assert len({tuple(row.tolist()) for row in kept.flatten(0, 1)}) == 6
