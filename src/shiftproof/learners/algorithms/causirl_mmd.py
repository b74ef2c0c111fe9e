"""CausIRL by MMD."""

from __future__ import annotations

from torch import Tensor

from shiftproof.learners.algorithms.base import ALGORITHMS
from shiftproof.learners.algorithms.causirl_coral import CausIRL
from shiftproof.penalties.mmd import mmd


@ALGORITHMS.register("causirl-mmd")
class CausIRLMMD(CausIRL):
    """Match two random mixtures A, B of the domains by Gaussian kernels: L_E + λ MMD²(A, B).

    See `CausIRL`,
    `mmd` and Chevalley et al. (2022).
    """

    def distance(self, first: Tensor, second: Tensor) -> Tensor:
        """Return MMD²(A, B)."""
        return mmd([first, second])
