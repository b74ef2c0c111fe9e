"""PDM over several calls, with a memory of the earlier ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from shiftproof.core.errors import InvalidValue
from shiftproof.core.tensors import LateBuffers
from shiftproof.matching.head_gradients import LinearGradients
from shiftproof.matching.levels import Matching, Memory, Order, check_trim, overlap
from shiftproof.matching.pdm import Points, group_sizes, like, match, pdm


class MovingMatch(LateBuffers):
    """PDM on a moving average of the sorted points (Algorithm 1, line 5).

    For each domain i it keeps the sum Sᵢ = Σₖ γᵏ sort(xⁱ) over the calls with samples of i, k calls
    ago, and their mass wᵢ = Σₖ γᵏ.  With x̄ = Σᵢ Sᵢ / Σᵢ wᵢ the common centre of the m domains seen
    so far, in d dimensions and at b levels,

        penalty = (1 / (m·d·b)) Σᵢ ‖Sᵢ − wᵢ x̄‖ₚᵖ,

    where only the points of this call carry a gradient.  A domain that is absent still counts, but
    less with every call.  With γ = 0 nothing is kept, and `pdm` matches the domains of this call.

    If every call holds every domain, Sᵢ is the moving average of the paper,
    x̄ₜ = γ x̄ₜ₋₁ + (1 − γ) sort(xₜ), divided by 1 − γ.  The authors' code divides by it too, which
    makes the gradient of the newest points independent of γ; `corrected` does the same.  Without
    it, the penalty is that of the paper's average, (1 − γ)ᵖ times as large.

    The number of levels is the largest group's size in the first call.  Groups of other sizes are
    brought to these levels (`matching.levels`).  Calls in evaluation mode, and calls with NaN or
    infinity, do not change the state.

    The state is `sums` [domains, dims, levels], `masses` [domains] and `domains`, the domain ids.
    """

    late = ("sums", "masses", "domains")
    sums: Tensor | None
    masses: Tensor | None
    domains: Tensor | None

    def __init__(
        self, gamma: float = 0.95, order: Order = 2, trim: int = 0, *, corrected: bool = False
    ) -> None:
        super().__init__()
        self.gamma = gamma
        self.order = order
        self.trim = trim
        self.scale = 1.0 if corrected else (1 - gamma) ** order
        self._known: list[int] = []  # `domains` as a list, readable without waiting for a device

    def forward(self, x: Points, domains: Sequence[int] | None = None) -> Tensor:
        """Add x to the moving average and return the penalty.

        x: [domains, batch, dims], or groups [batchᵢ, dims], or the gradients of a linear head.
        `domains` are the domain ids, by default 0, 1, …
        """
        if self.gamma == 0:
            return pdm(x, self.order, self.trim)
        sizes = group_sizes(x)
        levels = max(sizes) if self.sums is None else self.sums.shape[2]
        check_trim(self.trim, levels)
        rules = [overlap(size, levels, like(x)) for size in sizes]
        memory = self._memory(x, range(len(sizes)) if domains is None else domains, levels)
        return self.scale * match(x, Matching(rules, self.order, self.trim, memory=memory))

    def _memory(self, x: Points, present: Sequence[int], levels: int) -> Memory:
        """Return the memory of this call, extended by new domains, and update the masses."""
        known = [*self._known, *(domain for domain in present if domain not in self._known)]
        sums, masses = self._past(x, len(known), levels)
        rows = None
        if list(present) == known:
            moved = self.gamma * masses + 1
        else:
            rows = torch.tensor([known.index(domain) for domain in present], device=masses.device)
            moved = (self.gamma * masses).index_add(0, rows, masses.new_ones(len(rows)))
        kept = self.training and _is_finite(x)
        if kept is not False:
            self.sums = sums
            self.masses = moved if kept is True else torch.where(kept, moved, masses)
            if known != self._known:
                self._known, self.domains = known, torch.tensor(known)
        return Memory(sums, self.gamma, rows, _shares(moved), kept)

    def _past(self, x: Points, count: int, levels: int) -> tuple[Tensor, Tensor]:
        """Return the sums and masses of `count` domains, 0 for new ones."""
        dims = x.dims if isinstance(x, LinearGradients) else x[0].shape[1]
        if self.sums is None or self.masses is None:
            return like(x).new_zeros(count, dims, levels), like(x).new_zeros(count)
        if self.sums.shape[1] != dims:
            raise InvalidValue(
                f"what is matched had {self.sums.shape[1]} dimensions in earlier calls and has"
                f" {dims} now: build a new matching for another network"
            )
        # A checkpoint may have been loaded on another device.
        sums, masses = self.sums.to(like(x)), self.masses.to(like(x))
        new = count - len(sums)
        if new > 0:
            sums = torch.cat([sums, sums.new_zeros(new, dims, levels)])
            masses = torch.cat([masses, masses.new_zeros(new)])
        return sums, masses

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
        self._known = [] if self.domains is None else self.domains.tolist()


def _is_finite(x: Points) -> bool | Tensor:
    """Return whether all values are finite; off the CPU as a tensor, so as not to wait for it."""
    parts = (x.features, x.residual) if isinstance(x, LinearGradients) else tuple(x)
    finite = torch.stack([part.isfinite().all() for part in parts]).all()
    return bool(finite) if finite.device.type == "cpu" else finite


def _shares(masses: Tensor) -> Tensor | None:
    """Return each domain's share of the mass; None if the shares are known to be equal."""
    if masses.device.type == "cpu" and bool((masses == masses[0]).all()):
        return None
    return (masses / masses.sum()).view(-1, 1, 1)
