"""SelfReg's dissimilarities between a sample and others of its class (Kim et al., 2021)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from shiftproof.penalties.mixing import mix

FEATURE_SHARE = 0.3


def same_class_partners(labels: Tensor, order: Tensor) -> Tensor:
    """Turn a shuffle of all samples into a shuffle within each class.

    labels [n] are integers; order [n] is a permutation of 0 … n − 1.  If it is uniformly random, so
    is the result.  The partners [n] are a permutation with labels[partners] = labels.

    >>> same_class_partners(torch.tensor([0, 1, 0, 1]), torch.tensor([2, 1, 3, 0]))
    tensor([2, 1, 0, 3])
    """
    by_class = labels.argsort(stable=True)
    by_class_shuffled = order[labels[order].argsort(stable=True)]
    return torch.empty_like(by_class).scatter_(0, by_class, by_class_shuffled)


def dissimilarity(
    logits: Tensor,
    features: Tensor,
    projected: Tensor,
    partners: tuple[Tensor, Tensor],
    weight: Tensor,
) -> Tensor:
    """Return SelfReg's regulariser λ D₁ + (1 − λ) D₂, a scalar ≥ 0.

    With logits z [n, c], features r [n, k] and their projection p [n, k], partners π₁ and π₂ [n]
    of the same class, and λ = `weight` (a 0-dimensional tensor),

        individual     D₁ = MSE(z, z∘π₁) + 0.3 · MSE(r, p∘π₁)
        heterogeneous  D₂ = MSE(z, λ z∘π₁ + (1 − λ) z∘π₂) + 0.3 · MSE(r, λ p∘π₁ + (1 − λ) p∘π₂)
    """
    first, second = partners
    mixed_logits = mix(logits[first], logits[second], weight)
    mixed_projected = mix(projected[first], projected[second], weight)
    individual = _distance(logits, logits[first], features, projected[first])
    heterogeneous = _distance(logits, mixed_logits, features, mixed_projected)
    return mix(individual, heterogeneous, weight)


def _distance(logits: Tensor, logits_to: Tensor, features: Tensor, features_to: Tensor) -> Tensor:
    """Return MSE of the logits + 0.3 · MSE of the features."""
    return F.mse_loss(logits, logits_to) + FEATURE_SHARE * F.mse_loss(features, features_to)
