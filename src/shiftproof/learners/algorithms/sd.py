"""SD: spectral decoupling."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from shiftproof.core.space import Float
from shiftproof.learners.algorithms import ALGORITHMS, Outputs, PenalisedRisk, weight


@ALGORITHMS.register("sd")
class SD(PenalisedRisk):
    """Keep logits z small, so that no single feature dominates: L_E + λ E‖z‖² / c.

    The mean is over all samples and the c logits.  Domains are not compared.

    Paper: Pezeshki et al. (2021), *Gradient Starvation: A Learning Proclivity in Neural Networks*.
    """

    family = "predictor"
    paper = "Pezeshki et al. (2021)"

    @dataclass(frozen=True)
    class Hparams(PenalisedRisk.Hparams):
        """λ."""

        penalty_weight: float = weight(0.1, Float(-5, -1, base=10), help="λ, weight of the penalty")

    def penalty(self, outputs: Outputs) -> Tensor:
        """Return the mean square of the logits."""
        return outputs.logits.square().mean()
