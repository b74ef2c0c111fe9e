"""An exponential moving average whose newest term stays differentiable."""

from __future__ import annotations

from torch import Tensor

from shiftproof.core.tensors import LateBuffers


class MovingAverage(LateBuffers):
    """x̄ₜ = γ x̄ₜ₋₁ + (1 − γ) xₜ with x̄₀ = 0; only xₜ carries a gradient.

    With `corrected`, the result is x̄ₜ / (1 − γ), as in the code of Fishr (Rame et al., 2022)
    and of IDM: the gradient of xₜ then does not depend on γ.

    The average is a buffer, so it is saved, moved and restored with the model.

    >>> import torch
    >>> average = MovingAverage(0.5)
    >>> average(torch.tensor([4.0])), average(torch.tensor([4.0]))
    (tensor([2.]), tensor([3.]))
    """

    late = ("average",)
    average: Tensor | None

    def __init__(self, gamma: float, *, corrected: bool = False) -> None:
        super().__init__()
        self.gamma = gamma
        self.corrected = corrected

    def forward(self, x: Tensor) -> Tensor:
        """Update the average with `x` and return it, in the same shape."""
        if self.gamma == 0:
            return x
        current = (1 - self.gamma) * x
        if self.average is not None:
            # If loaded from a checkpoint, the average may still be on another device.
            current = current + self.gamma * self.average.to(current)
        self.average = current.detach()
        return current / (1 - self.gamma) if self.corrected else current
