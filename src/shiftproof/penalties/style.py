"""Style and content of features: mean and variance, and the features normalised by them.

For features x of one sample, with μ and σ² the mean and (unbiased) variance over its entries, or
over the positions of each channel if there are channels,

    style (μ, σ²),   content x̂ = (x − μ) / √(σ² + ε),   x = √(σ² + ε) · x̂ + μ

(Nam et al., 2021).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from shiftproof.penalties.mixing import mix

EPSILON = 1e-5


class Style(NamedTuple):
    """Mean and variance of each sample, [n, 1], or of each of its channels, [n, c, 1, …]."""

    mean: Tensor
    variance: Tensor

    def put_on(self, content: Tensor) -> Tensor:
        """Return √(σ² + ε) · content + μ, of the content's shape."""
        return content * (self.variance + EPSILON).sqrt() + self.mean


def style_of(features: Tensor) -> Style:
    """Return the style of features [n, k], or [n, c, …positions]."""
    axes = tuple(range(2, features.dim())) or (1,)
    variance, mean = torch.var_mean(features, dim=axes, keepdim=True)
    return Style(mean, variance)


def content_of(features: Tensor) -> Tensor:
    """Return the content x̂ of features [n, k] or [n, c, …], of the same shape."""
    mean, variance = style_of(features)
    return (features - mean) / (variance + EPSILON).sqrt()


def mix_style(features: Tensor, partner: Tensor, weight: Tensor) -> Tensor:
    """Return the features with a style between their own and their partner's; content is kept.

    Sample i gets (μ, σ²) = wᵢ (μᵢ, σᵢ²) + (1 − wᵢ) (μⱼ, σⱼ²) with j = partner[i].
    features [n, …], partner [n] of indices, weight [n] → [n, …].
    """
    own = style_of(features)
    mixed = Style(*(mix(part, part[partner], weight) for part in own))
    return mixed.put_on(content_of(features))


def swap_content(features: Tensor, partner: Tensor) -> Tensor:
    """Return the content of the partners with the samples' own style.

    Only the style carries a gradient.  features [n, …], partner [n] of indices → [n, …].
    """
    return style_of(features).put_on(content_of(features)[partner].detach())


def uniform_risk(logits: Tensor) -> Tensor:
    """Return the cross-entropy −(1/c) Σ_y log p(y) of each prediction to the uniform distribution.

    logits [..., c], or [..., 1] under the logistic function → [...].

    >>> uniform_risk(torch.zeros(1, 4)), uniform_risk(torch.zeros(1, 1))
    (tensor([1.3863]), tensor([0.6931]))
    """
    if logits.shape[-1] == 1:
        logits = torch.cat([torch.zeros_like(logits), logits], dim=-1)
    return -torch.log_softmax(logits, dim=-1).mean(dim=-1)
