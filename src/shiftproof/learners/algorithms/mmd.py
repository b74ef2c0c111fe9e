"""MMD: matching representations by maximum mean discrepancy."""

from __future__ import annotations

from torch import Tensor

from shiftproof.learners.algorithms import ALGORITHMS
from shiftproof.learners.algorithms.coral import CORAL
from shiftproof.penalties.formulas import mmd


@ALGORITHMS.register("mmd")
class MMD(CORAL):
    """Match representations Rⁱ in the space of Gaussian kernels: L_E + λ E_{i<j} MMD²(Rⁱ, Rʲ).

    The kernel is a sum over seven widths (`penalties.formulas`).  As in DomainBed, this is only the
    matching term of the paper's method, without the autoencoder and the adversarial prior.

    Paper: Li et al. (2018), *Domain Generalization with Adversarial Feature Learning*.
    """

    paper = "Li et al. (2018)"

    def distance(self, representations: Tensor) -> Tensor:
        """Return the mean discrepancy over pairs of domains."""
        return mmd(representations)
