"""MMD: matching representations by maximum mean discrepancy."""

from __future__ import annotations

from torch import Tensor

from shiftproof.learners.algorithms.base import ALGORITHMS
from shiftproof.learners.algorithms.coral import CORAL
from shiftproof.penalties.mmd import mmd


@ALGORITHMS.register("mmd")
class MMD(CORAL):
    """Match representations Rⁱ in the space of Gaussian kernels: L_E + λ E_{i<j} MMD²(Rⁱ, Rʲ).

    Seven widths are summed (`penalties.mmd`).  Of the paper's method this is the
    matching term alone, without autoencoder and adversarial prior, as in DomainBed.

    Paper: Li et al. (2018), *Domain Generalization with Adversarial Feature Learning*.
    """

    paper = "Li et al. (2018)"

    def distance(self, representations: Tensor) -> Tensor:
        """Return the mean discrepancy over pairs of domains."""
        return mmd(representations)
