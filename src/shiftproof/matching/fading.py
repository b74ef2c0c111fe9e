"""PDM over domains that come and go: each is remembered, and its memory fades."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from shiftproof.core.errors import InvalidValue
from shiftproof.matching.pdm import Order, pdm, resample, sorted_points, spread


class FadingMatch(nn.Module):
    """PDM on what was seen k calls ago with weight γᵏ, whether or not each call saw each domain.

    Of domain i it remembers the sum Sᵢ = Σₖ γᵏ sort(xⁱ) over the calls that held samples of i, and
    their mass wᵢ = Σₖ γᵏ.  With x̄ = Σᵢ Sᵢ / Σᵢ wᵢ the common centre of the m domains seen so far,

        penalty = (1 / (m·d·b)) Σᵢ ‖Sᵢ − wᵢ x̄‖ₚᵖ,

    where only this call's points carry a gradient.  If every call holds every domain, all wᵢ are
    equal and this is `MovingMatch` with ``corrected``.  A domain
    that is absent still counts, and ever less; a new one comes in as gently as all did at first.

    γ = 0 remembers nothing: the domains of this call are matched by
    `pdm`.

    Sums are kept at as many quantile levels as the first call's largest group had samples; other
    sizes are brought to it.  So the state is [domains, levels, dims], in ``state_dict``.
    """

    sums: Tensor | None
    masses: Tensor | None

    def __init__(self, gamma: float, order: Order, trim: int = 0) -> None:
        super().__init__()
        self.gamma = gamma
        self.order: Order = order
        self.trim = trim
        self.domains: list[int] = []
        self.register_buffer("sums", None)
        self.register_buffer("masses", None)

    def forward(self, groups: Sequence[Tensor], domains: Sequence[int]) -> Tensor:
        """Return the penalty of groups [sizeᵢ, dims] of the named domains; remember in training."""
        even = len({len(group) for group in groups}) == 1
        points = torch.stack(tuple(groups)) if even else groups
        if self.gamma == 0:
            return pdm(points, self.order, self.trim)
        self._check_dims(groups[0].shape[1])
        levels = max(map(len, groups)) if self.sums is None else self.sums.shape[1]
        if isinstance(points, Tensor) and points.shape[1] == levels:
            ranked = sorted_points(points)
        else:
            ranked = torch.stack([resample(sorted_points(group), levels) for group in groups])
        return self._match(ranked, domains)

    def _match(self, ranked: Tensor, domains: Sequence[int]) -> Tensor:
        """Return the penalty of sorted points [domains, levels, dims]."""
        levels = ranked.shape[1]
        if not 0 <= 2 * self.trim < levels:
            raise InvalidValue(f"cannot trim {self.trim} values from each end of {levels}")
        known = self.domains + [domain for domain in domains if domain not in self.domains]
        past, past_masses = self._past(ranked, len(known))
        rows = torch.tensor([known.index(domain) for domain in domains], device=ranked.device)
        sums = (self.gamma * past).index_add(0, rows, ranked)
        masses = (self.gamma * past_masses).index_add(0, rows, ranked.new_ones(len(rows)))
        centre = sums.sum(dim=0) / masses.sum()
        deviation = sums - masses[:, None, None] * centre  # which sums to 0 over the domains
        penalty = spread(deviation[:, self.trim : levels - self.trim], self.order)
        if self.training:
            # A single NaN would stay for ever.
            sound = penalty.detach().isfinite()
            self.sums = torch.where(sound, sums.detach(), past)
            self.masses = torch.where(sound, masses, past_masses)
            self.domains = known
        return penalty

    def _past(self, like: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Return sums and masses of ``count`` domains, those not yet known being 0."""
        sums = like.new_zeros(count, *like.shape[1:])
        masses = like.new_zeros(count)
        if self.sums is not None and self.masses is not None:
            sums[: len(self.sums)] = self.sums
            masses[: len(self.masses)] = self.masses
        return sums, masses

    def _check_dims(self, dims: int) -> None:
        if self.sums is not None and self.sums.shape[2] != dims:
            raise InvalidValue(
                f"what is matched had {self.sums.shape[2]} dimensions in earlier calls and has"
                f" {dims} now: build a new matching for another network"
            )

    def get_extra_state(self) -> list[int]:
        """Return which domain each row of the sums belongs to."""
        return list(self.domains)

    def set_extra_state(self, state: list[int]) -> None:
        """Take up the rows of another's `get_extra_state`."""
        self.domains = list(state)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        # The buffers take their shape from the data, so a fresh module has none to load into.
        for name in ("sums", "masses"):
            saved = state_dict.get(prefix + name)
            setattr(self, name, None if saved is None else torch.empty_like(saved))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
