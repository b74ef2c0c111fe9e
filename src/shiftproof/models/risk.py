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

from abc import ABC, abstractmethod
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


class Loss(ABC):
    """The loss of a sample as a function of the outputs: its value and its derivative."""

    @abstractmethod
    def risk(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return ℓ of each sample: outputs [..., c], labels [...] → [...]."""

    @abstractmethod
    def residual(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return ∂ℓ/∂outputs of each sample: outputs [..., c], labels [...] → [..., c]."""


@dataclass(frozen=True)
class CrossEntropy(Loss):
    """The loss of classification."""

    def risk(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return −log p(label)."""
        return per_sample_risk(outputs, labels)

    def residual(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return softmax(logits) − onehot(y)."""
        return logit_residual(outputs, labels)


CROSS_ENTROPY_LOSS = CrossEntropy()


class NumberLoss(Loss):
    """A regression loss: a function of the error e = ŷ − y only."""

    @abstractmethod
    def of(self, error: Tensor) -> Tensor:
        """Return ℓ(e)."""

    @abstractmethod
    def slope(self, error: Tensor) -> Tensor:
        """Return ℓ′(e)."""

    def risk(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return ℓ(ŷ − y): outputs [..., 1], labels [...] → [...]."""
        return self.of(outputs.squeeze(-1) - labels.to(outputs.dtype))

    def residual(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return ℓ′(ŷ − y): outputs [..., 1], labels [...] → [..., 1]."""
        return self.slope(outputs - labels.unsqueeze(-1).to(outputs.dtype))


@dataclass(frozen=True)
class Squared(NumberLoss):
    """Half the squared error."""

    def of(self, error: Tensor) -> Tensor:
        """Return e² / 2."""
        return error.square() / 2

    def slope(self, error: Tensor) -> Tensor:
        """Return e."""
        return error


@dataclass(frozen=True)
class Absolute(NumberLoss):
    """The absolute error."""

    def of(self, error: Tensor) -> Tensor:
        """Return |e|."""
        return error.abs()

    def slope(self, error: Tensor) -> Tensor:
        """Return the sign of e."""
        return error.sign()


@dataclass(frozen=True)
class Huber(NumberLoss):
    """Squared for small errors and absolute for large ones (Huber, 1964)."""

    delta: float = 1.0

    def of(self, error: Tensor) -> Tensor:
        """Return e² / 2 where |e| ≤ δ, else δ (|e| − δ/2)."""
        small = error.abs().clamp(max=self.delta)
        return small * (error.abs() - small / 2)

    def slope(self, error: Tensor) -> Tensor:
        """Return e, clipped to [−δ, δ]."""
        return error.clamp(-self.delta, self.delta)


@dataclass(frozen=True)
class Quantile(NumberLoss):
    """The pinball loss, minimised by the q-quantile (Koenker and Bassett, 1978)."""

    q: float = 0.5

    def of(self, error: Tensor) -> Tensor:
        """Return max(−q e, (1 − q) e)."""
        return torch.maximum(-self.q * error, (1 - self.q) * error)

    def slope(self, error: Tensor) -> Tensor:
        """Return 1 − q where the prediction is too high, −q where it is too low."""
        return (error > 0).to(error.dtype) - self.q


LOSSES: dict[str, type[Loss]] = {
    CROSS_ENTROPY: CrossEntropy,
    SQUARED: Squared,
    ABSOLUTE: Absolute,
    HUBER: Huber,
    QUANTILE: Quantile,
}


@cache
def loss_named(name: str) -> Loss:
    """Return the loss with the given name; a parameter follows a colon.

    >>> loss_named("squared"), loss_named("huber"), loss_named("quantile:0.9")
    (Squared(), Huber(delta=1.0), Quantile(q=0.9))
    """
    kind, parameter = parsed_loss(name)
    return LOSSES[kind]() if parameter is None else LOSSES[kind](parameter)  # type: ignore[call-arg]
