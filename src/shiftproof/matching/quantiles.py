"""Groups of unequal sizes on common levels, by their quantile functions.

The quantile function of b sorted values x₍₁₎ ≤ … ≤ x₍b₎ is the step function F⁻¹(u) = x₍⌈ub⌉₎ on
(0, 1].  There are two ways to bring several groups to the same levels:

- `merged_levels` cuts (0, 1] wherever one of the functions steps: exact, with levels of unequal
  width;
- `overlap` averages over each of n equal shares, which gives the nearest distribution of n equal
  weights in the W₂ sense: the levels stay the same from call to call.

Both return a `rule` for each group: the positions of its values, or a matrix.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def merged_levels(sizes: Sequence[int], trim: int, like: Tensor) -> tuple[list[Tensor], Tensor]:
    """Return the position of each group's value at each level, and the widths of the levels.

    `trim` values of the smallest group are left out at each end, and the same share of larger
    groups.  The widths sum to 1.
    """
    cut = trim / min(sizes)
    edges = np.unique(np.concatenate([np.arange(size + 1) / size for size in sizes]))
    edges = np.unique(np.clip(edges, cut, 1 - cut))
    middles = (edges[1:] + edges[:-1]) / 2
    places = [np.floor(middles * size).astype(np.int64) for size in sizes]
    widths = torch.as_tensor(np.diff(edges) / (1 - 2 * cut), dtype=like.dtype, device=like.device)
    return [torch.as_tensor(place, device=like.device) for place in places], widths


def overlap(size: int, levels: int, like: Tensor) -> Tensor | None:
    """Return the matrix [levels, size] that averages over equal shares; None if size = levels."""
    if size == levels:
        return None
    share = np.arange(levels + 1)[:, None] / levels * size - np.arange(size)[None, :]
    means = np.diff(np.clip(share, 0, 1), axis=0) * levels / size
    return torch.as_tensor(means, dtype=like.dtype, device=like.device)


def to_levels(ranked: Tensor, rule: Tensor | None) -> Tensor:
    """Bring sorted values [..., size] to the levels of a rule: [..., levels]."""
    if rule is None:
        return ranked
    return ranked @ rule.T if rule.is_floating_point() else ranked[..., rule]


def from_levels(slopes: Tensor, rule: Tensor | None, size: int) -> Tensor:
    """Return the slopes of the values [..., size], given the slopes at the levels [..., levels]."""
    if rule is None:
        return slopes
    if rule.is_floating_point():
        return slopes @ rule
    found = slopes.new_zeros(*slopes.shape[:-1], size)
    return found.scatter_add_(-1, rule.expand_as(slopes), slopes)
