"""Masks that keep a gradient only where the domains agree on it.

With g^i [domains, …] the gradient of domain i for one parameter tensor and ḡ its mean over domains,
the agreement of an entry is a = |(1/m) Σᵢ sign(g^i)| ∈ [0, 1], and the gradient to descend is

    (M ⊙ ḡ) / (10⁻¹⁰ + mean(M)),

with M the mask; the divisor preserves the step size if few entries are left.
"""

from __future__ import annotations

import torch
from torch import Tensor

# The published code's value for an undefined mask entry.
NEGLIGIBLE = 1e-17


def sign_agreement(gradients: Tensor) -> Tensor:
    """Return a = |mean of signs over domains|: [domains, …] → […].

    >>> sign_agreement(torch.tensor([[2.0, 1.0], [0.5, -3.0]]))
    tensor([1., 0.])
    """
    return gradients.sign().mean(dim=0).abs()


def and_mask(gradients: Tensor, tau: float) -> Tensor:
    """Return the hard mask of Parascandolo et al. (2021): 1 where a ≥ τ, else 0.

    gradients [domains, …] → […], in single precision as published.
    """
    return (sign_agreement(gradients) >= tau).float()


def sand_mask(gradients: Tensor, tau: float, k: float) -> Tensor:
    """Return the smooth mask of Shahtalebi et al. (2021): max(0, tanh(k (a − τ) / σ²)).

    σ² is the unbiased variance of an entry over domains (0 for one domain).  Where (a − τ) / σ² is
    0/0, the mask is `NEGLIGIBLE`.  gradients [domains, …] → […].
    """
    precision = gradients.var(dim=0, correction=min(1, len(gradients) - 1)).reciprocal()
    mask = torch.tanh(k * precision * (sign_agreement(gradients) - tau)).clamp(min=0)
    return mask.nan_to_num(nan=NEGLIGIBLE)


def masked_mean(gradients: Tensor, mask: Tensor) -> Tensor:
    """Return (M ⊙ ḡ) / (10⁻¹⁰ + mean(M)): gradients [domains, …], mask […] → […]."""
    masked = mask * gradients.mean(dim=0) * (1 / (1e-10 + mask.mean()))
    return masked.to(gradients.dtype)
