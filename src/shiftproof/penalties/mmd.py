"""MMD: maximum mean discrepancy, the distance between domains in a kernel's feature space."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import torch
from torch import Tensor

from shiftproof.core.tensors import in_full_precision

# From nearly linear to nearly discrete, for features of any scale.
INVERSE_WIDTHS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)


@in_full_precision
def mmd(
    groups: Tensor | Sequence[Tensor], inverse_widths: Sequence[float] = INVERSE_WIDTHS
) -> Tensor:
    """Return the mean over pairs of groups of K̄ᵢᵢ + K̄ⱼⱼ − 2 K̄ᵢⱼ, a scalar ≥ 0.

    K̄ᵢⱼ is the mean of `gaussian_kernels` between the points of groups i and j, so the term
    of a pair is ‖mean embedding of i − mean embedding of j‖² (Gretton et al., 2012; the biased
    estimate, which pairs points with themselves).  The mean over all pairs is twice the mean kernel
    within groups minus twice the mean kernel between groups.

    groups [domains, batch, k], or a sequence of [batchᵢ, k] of any sizes ≥ 1.  For one group the
    result is 0.
    """
    within = [gaussian_kernels(x, x, inverse_widths).mean() for x in groups]
    if len(groups) == 1:
        return 0 * within[0]
    between = [gaussian_kernels(x, y, inverse_widths).mean() for x, y in combinations(groups, 2)]
    return 2 * (torch.stack(within).mean() - torch.stack(between).mean())


def gaussian_kernels(
    x: Tensor, y: Tensor, inverse_widths: Sequence[float] = INVERSE_WIDTHS
) -> Tensor:
    """Return Σ_γ exp(−γ ‖xᵢ − yⱼ‖²) over `inverse_widths`: x [n, k], y [l, k] → [n, l].

    The default is γ = 10⁻³ … 10³.

    >>> gaussian_kernels(torch.zeros(1, 2), torch.zeros(1, 2))
    tensor([[7.]])
    """
    squares = x.square().sum(dim=1, keepdim=True) + y.square().sum(dim=1)
    # Rounding can make the distance between equal points negative.
    distances = (squares - 2 * x @ y.T).clamp_min(0)
    return torch.stack([torch.exp(-gamma * distances) for gamma in inverse_widths]).sum(dim=0)
