"""Several networks side by side: their features, one after the other, in standard units."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class SideBySide(nn.Module):
    """x → [φ₁(x), φ₂(x), …]: the features [n, k₁ + k₂ + …] of several networks."""

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of all networks."""
        return torch.cat([network(x) for network in self.networks], dim=1)


class StandardUnits(nn.Module):
    """(x − mean) / std of some columns of features: [n, all] → [n, `width`].

    The features of one network are thousands of times those of another, so neither is heard above
    the other only in standard units.  Columns, means and deviations are state.
    """

    columns: Tensor
    mean: Tensor
    std: Tensor

    def __init__(self, width: int, farthest: float) -> None:
        super().__init__()
        self.farthest = farthest
        self.register_buffer("columns", torch.arange(width))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("std", torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Return the columns in standard units, clipped to ± `farthest`."""
        scaled = (x[:, self.columns] - self.mean) / self.std
        return scaled.clamp(-self.farthest, self.farthest)
