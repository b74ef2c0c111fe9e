"""How one call matches: levels, order, trimming, and what earlier calls left of each domain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from shiftproof.matching.spread import Order

EVERYTHING = slice(None)


class Memory(NamedTuple):
    """Sums of sorted points S [domains, dims, levels], and the part that a call has in them.

    ``rows`` are the domains that the call holds; None stands for all of them, in order.  ``shares``
    [domains, 1, 1] are those of all domains in the mass after the call; None stands for equal
    shares.  ``kept`` tells whether S moves with the call, in place.
    """

    sums: Tensor
    gamma: float
    rows: Tensor | None
    shares: Tensor | None
    kept: bool | Tensor


class Matching(NamedTuple):
    """One rule for the levels of each domain (`matching.quantiles`), and how to match there."""

    rules: Sequence[Tensor | None]
    order: Order
    trim: int = 0
    widths: Tensor | None = None
    memory: Memory | None = None

    @property
    def shares(self) -> Tensor | None:
        """The domains' shares of the mass; None if they are equal."""
        return None if self.memory is None else self.memory.shares

    def moved(self, ranked: Tensor, dims: slice = EVERYTHING) -> Tensor:
        """Return γ S + x of some dimensions, for sorted points x [domains, dims, levels]."""
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
        """Return the rows of x [domains, …] that the call holds."""
        return x if self.memory is None or self.memory.rows is None else x[self.memory.rows]

    def points(self, sizes: Sequence[int]) -> int:
        """Return how many points of one dimension the penalty is a mean over."""
        domains, levels = len(sizes), sizes[0]
        if self.memory is not None:
            domains, levels = self.memory.sums.shape[0], self.memory.sums.shape[2]
        return domains * (1 if self.widths is not None else levels - 2 * self.trim)
