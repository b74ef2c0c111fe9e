"""Per-sample gradients of the head, as differentiable functions of features and head.

Algorithm 2 of the paper (line 7) needs G_j = ∇_ψ ℓ(f_ψ(r_j), y_j) for every sample j.  For a
linear head f_ψ(r) = W r + β under cross-entropy they have the closed form

    ∂ℓ/∂W = e rᵀ,   ∂ℓ/∂β = e,   e = softmax(W r + β) − onehot(y)

(or e = σ(logit) − y for one logit); any other head goes through ``torch.func``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from shiftproof.models.risk import logit_residual, per_sample_risk


def head_gradients(
    head: nn.Module, features: Tensor, labels: Tensor, logits: Tensor | None = None
) -> Tensor:
    """Return every sample's gradient by the head's parameters, flattened in their order.

    features [domains, batch, k], labels [domains, batch] → [domains, batch, P] for a head of P
    parameters.  ``logits`` [domains, batch, c], if at hand, spare a linear head one product.
    """
    if type(head) is nn.Linear:  # a subclass may have other parameters
        return linear_head_gradients(
            features,
            logit_residual(head(features) if logits is None else logits, labels),
            bias=head.bias is not None,
        )
    return functional_head_gradients(head, features, labels)


def linear_head_gradients(features: Tensor, residual: Tensor, *, bias: bool = True) -> Tensor:
    """Return the closed form e rᵀ (and e, for the bias) of each sample, flattened.

    features [..., k], residual e [..., c] → [..., c·k + c].
    """
    weight_part = (residual.unsqueeze(-1) * features.unsqueeze(-2)).flatten(-2)
    return torch.cat([weight_part, residual], dim=-1) if bias else weight_part


def some_linear_head_gradients(
    features: Tensor, residual: Tensor, dims: Tensor, *, bias: bool = True
) -> Tensor:
    """Return the closed form of some dimensions alone: [..., len(dims)].

    ``dims`` are positions among those of `linear_head_gradients`.
    """
    k, c = features.shape[-1], residual.shape[-1]
    of_weight = dims < c * k
    output = torch.where(of_weight, dims // k, dims - c * k)
    # The bias is the weight of a feature that is always 1.
    feature = torch.where(of_weight, dims % k, k)
    if bias:
        features = torch.cat([features, torch.ones_like(features[..., :1])], dim=-1)
    return residual[..., output] * features[..., feature]


def functional_head_gradients(head: nn.Module, features: Tensor, labels: Tensor) -> Tensor:
    """Return per-sample gradients of any head by ``torch.func``, flattened.

    The head must treat samples independently (no batch norm in training mode).  Its dropout, if
    any, draws one mask per sample.
    """
    parameters: dict[str, Tensor] = dict(head.named_parameters())
    buffers = dict(head.named_buffers())

    def risk(parameters: dict[str, Tensor], feature: Tensor, label: Tensor) -> Tensor:
        logits = functional_call(head, (parameters, buffers), (feature.unsqueeze(0),))
        return per_sample_risk(logits, label.unsqueeze(0)).squeeze(0)

    per_sample = vmap(grad(risk), in_dims=(None, 0, 0), randomness="different")
    gradients = per_sample(parameters, features.flatten(0, 1), labels.flatten())
    flat = torch.cat([part.flatten(1) for part in gradients.values()], dim=1)
    return flat.view(*features.shape[:2], -1)
