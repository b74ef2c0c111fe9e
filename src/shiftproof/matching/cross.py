"""PDM against earlier batches only, so that chance differences of a batch are not penalised."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from shiftproof.matching.moving import MovingMatch
from shiftproof.matching.pdm import Points, pdm


class CrossMatch(MovingMatch):
    """The penalty of `MovingMatch` minus the penalty of the newest points alone.

    Let Δ be the sorted points of this call minus their mean over domains, and Δₖ those of k calls
    ago.  The sums are S = Δ + Σₖ γᵏ Δₖ, and for order 2

        ‖S‖² − ‖Δ‖² = 2 Δ · Σₖ γᵏ Δₖ + (a part without gradient).

    Identically distributed domains have E Δ = 0, but E ‖Δ‖² > 0: batches differ by chance, and more
    so if gradients vary more.  To reduce ‖Δ‖², a network would make its gradients small through
    confident predictions, and so rely on any feature that helps.  Batches of different calls are
    independent, so the product with the past has no such part.
    """

    def forward(self, x: Points, domains: Sequence[int] | None = None) -> Tensor:
        """Add x to the moving average and return the penalty, which may be negative."""
        return super().forward(x, domains) - self.scale * pdm(x, self.order, self.trim)

    def forget(self) -> None:
        """Forget the earlier batches, whose points came from another network."""
        self.sums = self.masses = self.domains = None
        self._known = []
