"""One call of matching: its levels, order and trimming, and the memory of earlier calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from shiftproof.matching.spread import Order

EVERYTHING = slice(None)


class Memory(NamedTuple):
    """Sums of sorted points S [domains, dims, levels], to which a call adds its own.

    `rows` are the domains present in the call; None means all, in order.  `shares` [domains, 1, 1]
    are the domains' shares of the mass after the call; None means equal shares.  `kept` says
    whether S is updated in place.
    """

    sums: Tensor
    gamma: float
    rows: Tensor | None
    shares: Tensor | None
    kept: bool | Tensor


class Matching(NamedTuple):
    """How to match: `rules` bring the domains to common levels (`matching.quantiles`)."""

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
        sums, gamma, rows, _, kept = self.memory
        past = sums[:, dims]
        if rows is None:
            new = ranked.add(past, alpha=gamma)
        else:
            new = (gamma * past).index_add(0, rows, ranked)
        if isinstance(kept, Tensor):
            past.copy_(torch.where(kept, new.detach(), past))
        elif kept:
            past.copy_(new.detach())
        return new

    def present(self, x: Tensor) -> Tensor:
        """Return the rows of x [domains, …] for the domains present in the call."""
        return x if self.memory is None or self.memory.rows is None else x[self.memory.rows]
