"""V-REx: risk extrapolation by the variance of risks."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from shiftproof.core.space import Float
from shiftproof.learners.algorithms import ALGORITHMS, AnnealedPenalty, Outputs, weight
from shiftproof.penalties.formulas import variance_across_domains


@ALGORITHMS.register("vrex")
class VREx(AnnealedPenalty):
    """Make the domains' risks Lᵢ equal: L_E + λₜ (1/m) Σᵢ (Lᵢ − L_E)².

    λₜ is 1 until step `anneal_steps` and λ from then on; Adam restarts at that step.

    Paper: Krueger et al. (2021), *Out-of-Distribution Generalization via Risk Extrapolation*.
    """

    family = "robust"
    paper = "Krueger et al. (2021)"

    @dataclass(frozen=True)
    class Hparams(AnnealedPenalty.Hparams):
        """The hyper-parameters of IRM, with another default for λ."""

        penalty_weight: float = weight(1e1, Float(-1, 5, base=10), help="λ, weight of the penalty")

    def penalty(self, outputs: Outputs) -> Tensor:
        """Return the variance of the domains' risks."""
        return variance_across_domains(outputs.risks)
