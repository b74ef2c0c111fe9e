"""The formula of PDM: how far the sorted points of several domains lie from their common centre.

For points x [domains, …] and shares s [domains] with Σᵢ sᵢ = 1,

    spread_p = (1/(m·d)) Σ |Dᵢ|^p,   Dᵢ = xᵢ − sᵢ Σₖ xₖ,

over m domains and d numbers in each.  Equal shares 1/m make Dᵢ the deviation from the mean.

Groups of unequal sizes are brought to common levels by their quantile functions.  That of b sorted
values x₍₁₎ ≤ … ≤ x₍b₎ is the step function F⁻¹(u) = x₍⌈ub⌉₎ on (0, 1].  There
are two ways to bring several groups to the same levels:

- `merged_levels` cuts (0, 1] wherever one of the functions steps: exact, with levels of unequal
  width;
- `overlap` averages over each of n equal shares, which gives the nearest distribution of n equal
  weights in the W₂ sense: the levels stay the same from call to call.

Both return a `rule` for each group: the positions of its values, or a matrix.

`Matching` describes one call: its levels, order and trimming, and the `Memory` of earlier calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from shiftproof.core.errors import InvalidValue

Order = Literal[1, 2]


def centred(x: Tensor, shares: Tensor | None = None, *, overwrite: bool = False) -> Tensor:
    """Return D; `shares` [domains, 1, …] has as many axes as x, and None means 1/m each.

    With `overwrite`, D is written to x, which saves a pass over memory for large x.
    """
    if shares is None:
        return torch.sub(x, x.mean(dim=0), out=x if overwrite else None)
    return x.addcmul(shares, x.sum(dim=0), value=-1)


def spread(
    x: Tensor, order: Order, shares: Tensor | None = None, widths: Tensor | None = None
) -> Tensor:
    """Return the spread of x [domains, dims, levels], a scalar ≥ 0.

    `widths` [levels], which sum to 1, are the weights of levels of unequal width.
    """
    deviation = centred(x, shares)
    powered = deviation.square() if order == 2 else deviation.abs()
    return powered.mean() if widths is None else (powered.mean(dim=(0, 1)) * widths).sum()


def slope(deviation: Tensor, order: Order, shares: Tensor | None = None) -> Tensor:
    """Return ∂(Σ |D|^p)/∂x of a deviation D = `centred` (x), which is overwritten."""
    if order == 2:
        by_deviation = deviation.mul_(2)
        if shares is None:
            return by_deviation  # already sums to 0 over the domains
    else:
        by_deviation = deviation.sign_()
    if shares is None:
        return by_deviation.sub_(by_deviation.mean(dim=0))
    return by_deviation.sub_((by_deviation * shares).sum(dim=0))


def check_order(order: int) -> Order:
    """Return the order if it is 1 or 2, else raise."""
    if order not in (1, 2):
        raise InvalidValue(f"`order` must be 1 or 2, not {order!r}")
    return 1 if order == 1 else 2


def check_trim(trim: int, size: int) -> None:
    """Raise if trimming would leave out all values."""
    if not 0 <= 2 * trim < size:
        raise InvalidValue(f"cannot trim {trim} values from each end of {size}")


def merged_levels(sizes: Sequence[int], trim: int, like: Tensor) -> tuple[list[Tensor], Tensor]:
    """Return the position of each group's value at each level, and the widths of the levels.

    `trim` values of the smallest group are left out at each end, and the same share of larger
    groups.  The widths sum to 1.
    """
    cut = trim / min(sizes)
    edges = np.unique(np.concatenate([np.arange(size + 1) / size for size in sizes]))
    edges = np.unique(np.clip(edges, cut, 1 - cut))
    middles = (edges[1:] + edges[:-1]) / 2
    positions = [np.floor(middles * size).astype(np.int64) for size in sizes]
    widths = torch.as_tensor(np.diff(edges) / (1 - 2 * cut), dtype=like.dtype, device=like.device)
    return [torch.as_tensor(position, device=like.device) for position in positions], widths


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
    by_value = slopes.new_zeros(*slopes.shape[:-1], size)
    return by_value.scatter_add_(-1, rule.expand_as(slopes), slopes)


EVERYTHING = slice(None)


class Memory(NamedTuple):
    """Sums of sorted points S [domains, dims, levels], to which a call adds its own.

    `rows` are the domains present in the call; None means all, in order.  `shares` [domains, 1, 1]
    are the domains' shares of the mass after the call; None means equal shares.  `stored` says
    whether S is updated in place.
    """

    sums: Tensor
    gamma: float
    rows: Tensor | None
    shares: Tensor | None
    stored: bool | Tensor


class Matching(NamedTuple):
    """How to match: `rules` bring the domains to common levels (`matching.levels`)."""

    rules: Sequence[Tensor | None]
    order: Order
    trim: int = 0
    widths: Tensor | None = None
    memory: Memory | None = None

    @property
    def shares(self) -> Tensor | None:
        """The domains' shares of the mass; None for equal shares."""
        return None if self.memory is None else self.memory.shares

    def moved(self, ranked: Tensor, dims: slice = EVERYTHING) -> Tensor:
        """Return γ S + x in some dimensions, where x [domains, dims, levels] is sorted."""
        if self.memory is None:
            return ranked
        sums, gamma, rows, _, stored = self.memory
        past = sums[:, dims]
        if rows is None:
            new = ranked.add(past, alpha=gamma)
        else:
            new = (gamma * past).index_add(0, rows, ranked)
        if isinstance(stored, Tensor):
            past.copy_(torch.where(stored, new.detach(), past))
        elif stored:
            past.copy_(new.detach())
        return new

    def present(self, x: Tensor) -> Tensor:
        """Return the rows of x [domains, …] for the domains present in the call."""
        return x if self.memory is None or self.memory.rows is None else x[self.memory.rows]
