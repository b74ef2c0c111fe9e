"""An exponential moving average whose newest term stays differentiable."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class MovingAverage(nn.Module):
    """x̄ₜ = γ x̄ₜ₋₁ + (1 − γ) xₜ with x̄₀ = 0; only xₜ carries a gradient.

    With ``corrected`` the result is x̄ₜ / (1 − γ), as in the code of Fishr (Rame et al., 2022)
    and of IDM: the gradient that reaches xₜ then does not depend on γ.

    The average is a buffer, so it is saved, moved and restored with the model.

    >>> average = MovingAverage(0.5)
    >>> average(torch.tensor([4.0])), average(torch.tensor([4.0]))
    (tensor([2.]), tensor([3.]))
    """

    average: Tensor | None

    def __init__(self, gamma: float, *, corrected: bool = False) -> None:
        super().__init__()
        self.gamma = gamma
        self.corrected = corrected
        self.register_buffer("average", None)

    def forward(self, x: Tensor) -> Tensor:
        """Take in ``x`` and return the new average, of the same shape."""
        if self.gamma == 0:
            return x
        current = (1 - self.gamma) * x
        if self.average is not None:
            # Loaded from a checkpoint, it may still be where the checkpoint was read.
            current = current + self.gamma * self.average.to(current)
        self.average = current.detach()
        return current / (1 - self.gamma) if self.corrected else current

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        # The buffer takes its shape from the data, so a fresh module has none to load into.
        saved = state_dict.get(prefix + "average")
        self.average = None if saved is None else torch.empty_like(saved)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
