"""Risks: the loss of each sample, and its derivative with respect to the network's outputs.

Two classes have two logits and softmax, or one logit and the logistic function.  In this module,
`logits` whose last dimension is 1 mean the latter.  Regression has one output ŷ, in the units
of the labels passed with it.  With the error e = ŷ − y of a sample:

| loss | ℓ | ∂ℓ/∂ŷ | what it estimates |
|---|---|---|---|
| `squared` | e² / 2 | e | the mean |
| `absolute` | |e| | sign e | the median |
| `huber:δ` | e² / 2 where |e| ≤ δ, else δ (|e| − δ/2) | e, cut to [−δ, δ] | between the two |
| `quantile:q` | max(−q e, (1 − q) e) | 1 − q where e > 0, else −q | the q-quantile |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from shiftproof.core.types import CROSS_ENTROPY, SQUARED
from shiftproof.models.loss_names import (
    ABSOLUTE,
    HUBER,
    NUMBER_LOSSES as NUMBER_LOSSES,
    QUANTILE,
    parsed_loss,
)


def per_sample_risk(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the cross-entropy ℓ of each sample.

    logits [..., c] or [..., 1], labels [...] of integers → [...].
    """
    if logits.shape[-1] == 1:
        return F.binary_cross_entropy_with_logits(
            logits.squeeze(-1), labels.to(logits.dtype), reduction="none"
        )
    classes = logits.shape[-1]
    flat = F.cross_entropy(logits.reshape(-1, classes), labels.reshape(-1), reduction="none")
    return flat.view(labels.shape)


def logit_residual(logits: Tensor, labels: Tensor) -> Tensor:
    """Return ∂ℓ/∂logits of each sample: softmax(logits) − onehot(y), or σ(logit) − y.

    logits [..., c], labels [...] → [..., c].
    """
    if logits.shape[-1] == 1:
        return torch.sigmoid(logits) - labels.unsqueeze(-1).to(logits.dtype)
    return torch.softmax(logits, dim=-1) - F.one_hot(labels, logits.shape[-1]).to(logits.dtype)


def class_probabilities(logits: Tensor) -> Tensor:
    """Return the probability of each class: logits [..., c] or [..., 1] → [..., c] or [..., 2]."""
    if logits.shape[-1] == 1:
        return torch.sigmoid(torch.cat([-logits, logits], dim=-1))
    return torch.softmax(logits, dim=-1)


def predicted_class(logits: Tensor) -> Tensor:
    """Return the most likely class of each sample: logits [..., c] → [...]."""
    if logits.shape[-1] == 1:
        return (logits.squeeze(-1) > 0).long()
    return logits.argmax(dim=-1)


@dataclass(frozen=True)
class Loss:
    """The loss of a sample as a function of the outputs: its value and its derivative."""

    # ℓ of each sample: outputs [..., c], labels [...] → [...].
    risk: Callable[[Tensor, Tensor], Tensor]
    # ∂ℓ/∂outputs of each sample: outputs [..., c], labels [...] → [..., c].
    residual: Callable[[Tensor, Tensor], Tensor]


CROSS_ENTROPY_LOSS = Loss(per_sample_risk, logit_residual)


def number_loss(value: Callable[[Tensor], Tensor], slope: Callable[[Tensor], Tensor]) -> Loss:
    """Return a regression loss, which depends on the error e = ŷ − y only: ℓ(e) and ℓ′(e)."""

    def risk(outputs: Tensor, labels: Tensor) -> Tensor:
        return value(outputs.squeeze(-1) - labels.to(outputs.dtype))

    def residual(outputs: Tensor, labels: Tensor) -> Tensor:
        return slope(outputs - labels.unsqueeze(-1).to(outputs.dtype))

    return Loss(risk, residual)


def huber(delta: float = 1.0) -> Loss:
    """Return the loss that is squared for small errors, absolute for large ones (Huber, 1964)."""

    def value(error: Tensor) -> Tensor:
        small = error.abs().clamp(max=delta)
        return small * (error.abs() - small / 2)

    return number_loss(value, lambda error: error.clamp(-delta, delta))


def pinball(q: float = 0.5) -> Loss:
    """Return the loss that the q-quantile minimises (Koenker and Bassett, 1978)."""
    return number_loss(
        lambda error: torch.maximum(-q * error, (1 - q) * error),
        lambda error: (error > 0).to(error.dtype) - q,
    )


LOSSES: dict[str, Callable[..., Loss]] = {
    CROSS_ENTROPY: lambda: CROSS_ENTROPY_LOSS,
    SQUARED: lambda: number_loss(lambda error: error.square() / 2, lambda error: error),
    ABSOLUTE: lambda: number_loss(torch.abs, torch.sign),
    HUBER: huber,
    QUANTILE: pinball,
}


@cache
def loss_named(name: str) -> Loss:
    """Return the loss with the given name; a parameter follows a colon.

    >>> loss_named("quantile:0.9").risk(torch.tensor([[3.0]]), torch.tensor([1.0]))
    tensor([0.2000])
    """
    kind, parameter = parsed_loss(name)
    return LOSSES[kind]() if parameter is None else LOSSES[kind](parameter)
