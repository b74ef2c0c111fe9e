"""Per-sample gradients of the head, as differentiable functions of features and head.

Algorithm 2 of the paper (line 7) needs G_j = ∇_ψ ℓ(f_ψ(r_j), y_j) for every sample j.  For a
linear head f_ψ(r) = W r + β they have the closed form

    ∂ℓ/∂W = e rᵀ,   ∂ℓ/∂β = e,   e = ∂ℓ/∂f

with e = softmax(W r + β) − onehot(y) for cross-entropy (σ(logit) − y for one logit), e = ŷ − y for
the squared loss of numbers, and similarly for other losses (`models.risk`).
The gradients of any other head are computed with `torch.func`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from shiftproof.core.tensors import widened
from shiftproof.models.risk import CROSS_ENTROPY_LOSS, Loss

# Numbers to process at a time: enough to be worth a call, few enough for the cache.
BLOCK = 1 << 19


class LinearGradients(NamedTuple):
    """The gradients of a linear head as two factors, whose product is never stored as a whole.

    Sample j has the gradient e_j r_jᵀ, with r_j a row of `features` [n, k] and e_j a row of
    `residual` [n, c].  A `bias` is the weight of one more feature, which is always 1 and not
    stored.  The samples are grouped by domain; `sizes` holds the number of samples of each domain.
    """

    features: Tensor
    residual: Tensor
    sizes: tuple[int, ...]
    bias: bool

    @classmethod
    def of(
        cls, features: Tensor, residual: Tensor, sizes: Sequence[int], *, bias: bool = True
    ) -> LinearGradients:
        """Return the gradients for features [n, k] and residuals [n, c], in float32 or better."""
        return cls(widened(features), widened(residual), tuple(sizes), bias)

    @property
    def inputs(self) -> int:
        """The number of features, including that of the bias."""
        return self.features.shape[1] + self.bias

    @property
    def dims(self) -> int:
        """The number of dimensions of a gradient."""
        return self.inputs * self.residual.shape[1]

    def blocks(self) -> list[tuple[slice, slice]]:
        """Split outputs × features into blocks of neighbouring dimensions.

        A block covers all features of several outputs, or some features of one output.
        """
        k, (n, c) = self.inputs, self.residual.shape
        features, outputs = min(k, max(1, BLOCK // n)), max(1, BLOCK // (k * n))
        return [
            (slice(o, min(o + outputs, c)), slice(f, min(f + features, k)))
            for o in range(0, c, outputs)
            for f in range(0, k, features)
        ]


def gradients_of(
    head: nn.Module,
    features: Tensor,
    labels: Tensor,
    logits: Tensor,
    loss: Loss = CROSS_ENTROPY_LOSS,
) -> Tensor | LinearGradients:
    """Return the gradients to match: factors if the head is linear, else [domains, batch, P].

    features [domains, batch, k], labels [domains, batch], logits [domains, batch, c].
    """
    if not is_linear(head):
        return functional_head_gradients(head, features, labels, loss)
    residual = loss.residual(logits, labels)
    sizes = (features.shape[1],) * len(features)
    has_bias = head.bias is not None
    return LinearGradients.of(features.flatten(0, 1), residual.flatten(0, 1), sizes, bias=has_bias)


def head_gradients(
    head: nn.Module,
    features: Tensor,
    labels: Tensor,
    logits: Tensor | None = None,
    loss: Loss = CROSS_ENTROPY_LOSS,
) -> Tensor:
    """Return the per-sample gradients of the head's parameters, flattened in their order.

    features [domains, batch, k], labels [domains, batch] → [domains, batch, P] for a head of P
    parameters.  Passing `logits` [domains, batch, c] saves one matrix product for a linear head.
    """
    if is_linear(head):
        residual = loss.residual(head(features) if logits is None else logits, labels)
        return linear_head_gradients(features, residual, bias=head.bias is not None)
    return functional_head_gradients(head, features, labels, loss)


def is_linear(head: nn.Module) -> bool:
    """Return whether the head is exactly one linear layer; subclasses may have other parameters."""
    return type(head) is nn.Linear


def linear_head_gradients(features: Tensor, residual: Tensor, *, bias: bool = True) -> Tensor:
    """Return the closed form e rᵀ (and e, for the bias) of each sample, flattened.

    features [..., k], residual e [..., c] → [..., c·k + c].
    """
    weight_part = (residual.unsqueeze(-1) * features.unsqueeze(-2)).flatten(-2)
    return torch.cat([weight_part, residual], dim=-1) if bias else weight_part


def functional_head_gradients(
    head: nn.Module, features: Tensor, labels: Tensor, loss: Loss = CROSS_ENTROPY_LOSS
) -> Tensor:
    """Return the per-sample gradients of any head with `torch.func`, flattened.

    The head must treat samples independently (no batch norm in training mode).  Its dropout, if
    any, draws one mask per sample.
    """
    parameters: dict[str, Tensor] = dict(head.named_parameters())
    buffers = dict(head.named_buffers())

    def risk(parameters: dict[str, Tensor], feature: Tensor, label: Tensor) -> Tensor:
        logits = functional_call(head, (parameters, buffers), (feature.unsqueeze(0),))
        return loss.risk(logits, label.unsqueeze(0)).squeeze(0)

    per_sample = vmap(grad(risk), in_dims=(None, 0, 0), randomness="different")
    gradients = per_sample(parameters, features.flatten(0, 1), labels.flatten(0, 1))
    flat = torch.cat([part.flatten(1) for part in gradients.values()], dim=1)
    return flat.view(*features.shape[:2], -1)
