"""Steps in weight space that sharpness-aware methods take before computing the gradient."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

# Smaller than any relevant gradient norm; avoids division by zero for a zero gradient.
TINY = 1e-12


def ascent(gradients: Sequence[Tensor], radius: float, descent: float = 0.0) -> list[Tensor]:
    """Return ε − α g, where ε = ρ g / ‖g‖ maximises the loss over ‖ε‖ ≤ ρ to first order.

    g are the gradients of all weights, and ‖g‖ is the norm of all of them together; ρ is `radius`
    and α is `descent`.

    >>> ascent([torch.tensor([3.0]), torch.tensor([4.0])], radius=0.5)
    [tensor([0.3000]), tensor([0.4000])]
    """
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    scale = radius / norm.clamp(min=TINY) - descent
    return [scale * gradient for gradient in gradients]


@contextmanager
def moved(weights: Sequence[Tensor], steps: Sequence[Tensor]) -> Iterator[None]:
    """Add a step to each weight inside the context, and restore the weights exactly after it."""
    before = [weight.detach().clone() for weight in weights]
    with torch.no_grad():
        for weight, step in zip(weights, steps, strict=True):
            weight.add_(step)
    # Autocast caches the weights that it has cast, and would use the old ones.
    torch.clear_autocast_cache()
    try:
        yield
    finally:
        with torch.no_grad():
            for weight, old in zip(weights, before, strict=True):
                weight.copy_(old)
        torch.clear_autocast_cache()
