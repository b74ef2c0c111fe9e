"""Risks: the loss of each sample, and its derivative by the logits.

Two classes have two logits and softmax, or one logit and the logistic function.  Everywhere here,
`logits` whose last dimension is 1 mean the latter.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


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
