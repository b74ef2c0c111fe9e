"""Several networks side by side: their concatenated features, in standard units."""

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

    The features of one network can be thousands of times as large as those of another; standard
    units keep either from dominating.  Columns, means and deviations are buffers.
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
