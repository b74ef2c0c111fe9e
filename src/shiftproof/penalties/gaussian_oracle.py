"""The information of a layer's features on those of a frozen network: a variational bound."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftproof.core.tensors import widened

SMALLEST_VARIANCE = 1e-5


def gaussian_cost(features: Tensor, oracle: Tensor, variances: Tensor) -> Tensor:
    """Return −log N(z₀; z, σ²) without its constant: the mean of ½ [(z₀ − z)² / σ² + log σ²].

    z are the features, z₀ those of the oracle, of equal shape, and σ² broadcasts against both.
    Minus this cost is, up to a constant, a lower bound of the mutual information I(Z₀;Z) per
    dimension (Barber and Agakov, 2003), with the identity as the mean of q(z₀ | z).

    >>> gaussian_cost(torch.zeros(2), torch.full((2,), 3.0), torch.ones(2))
    tensor(4.5000)
    """
    distances = (widened(oracle) - widened(features)).square()
    return (0.5 * (distances / variances + variances.log())).mean()


class ChannelVariances(nn.Module):
    """σ² = softplus(b) + 1e-5, one for each channel of features of one shape.

    Channels are the second axis of maps [n, c, h, w], and the last axis of anything else.
    """

    def __init__(self, features: Tensor, initial: float = 0.1) -> None:
        super().__init__()
        axis = 1 if features.ndim == 4 else features.ndim - 1
        shape = [size if i == axis else 1 for i, size in enumerate(features.shape)]
        start = torch.tensor(initial - SMALLEST_VARIANCE, dtype=torch.float64).expm1().log()
        self.raw = nn.Parameter(torch.full(shape, start.item()))

    def forward(self) -> Tensor:
        """Return σ², of a shape that broadcasts against the features."""
        return F.softplus(self.raw) + SMALLEST_VARIANCE
