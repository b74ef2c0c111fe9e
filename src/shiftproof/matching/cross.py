"""PDM against earlier batches alone: what a batch differs in by chance is not penalised."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from shiftproof.matching.moving import MovingMatch
from shiftproof.matching.pdm import Points, pdm


class CrossMatch(MovingMatch):
    """The penalty of `MovingMatch` less that of the newest points by themselves.

    Write Δ for the sorted points of this call, less their mean over domains, and Δₖ for those k
    calls ago.  The sums are S = Δ + Σₖ γᵏ Δₖ, and for order 2

        ‖S‖² − ‖Δ‖² = 2 Δ · Σₖ γᵏ Δₖ + (a part without gradient).

    Domains that are alike have E Δ = 0, but E ‖Δ‖² > 0: batches differ by chance, the more the more
    gradients vary.  To reduce ‖Δ‖² a network would make its gradients small, by being sure of what
    it says, and so rely on any feature that helps.  Batches of different calls are independent, so
    the product with the past has no such part.
    """

    def forward(self, x: Points, domains: Sequence[int] | None = None) -> Tensor:
        """Take in x and return the penalty, which may be negative."""
        return super().forward(x, domains) - self.scale * pdm(x, self.order, self.trim)

    def forget(self) -> None:
        """Forget the earlier batches, whose points were those of another network."""
        self.sums = self.masses = self.domains = None
        self._known = []
