"""Mixtures of two tensors, and their random weights and pairs."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def mix(first: Tensor, second: Tensor, weight: Tensor) -> Tensor:
    """Return w · first + (1 − w) · second, with one weight for each leading entry.

    first and second [*lead, *rest], weight [*lead] (a scalar: one weight for all) → [*lead, *rest].

    >>> mix(torch.tensor([[0.0], [0.0]]), torch.tensor([[4.0], [8.0]]), torch.tensor([0.5, 0.25]))
    tensor([[2.],
            [6.]])
    """
    weight = weight.view(weight.shape + (1,) * (first.dim() - weight.dim()))
    return weight * first + (1 - weight) * second


def beta_weights(alpha: float, size: int, generator: torch.Generator) -> Tensor:
    """Return [size] draws from Beta(α, α) in float64, determined by the generator's state.

    Torch's Beta takes no generator, and its Gamma draws underflow for small α.  NumPy's do not, so
    a NumPy generator is seeded from ours.
    """
    seed = torch.randint(2**63 - 1, (2,), generator=generator)
    return torch.from_numpy(np.random.default_rng(seed.tolist()).beta(alpha, alpha, size))


def ring_pairs(size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return random pairs (first, second), both [size], that form one ring of all entries.

    Each entry is first once and second once, and (for size ≥ 2) never its own partner.
    """
    ring = torch.randperm(size, generator=generator)
    return ring, ring.roll(-1)
