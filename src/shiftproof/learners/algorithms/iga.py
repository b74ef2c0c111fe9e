"""IGA: inter-environmental gradient alignment."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from shiftproof.core.space import Float
from shiftproof.learners.algorithms import ALGORITHMS, Outputs, PenalisedRisk, weight
from shiftproof.penalties.formulas import gradient_spread


@ALGORITHMS.register("iga")
class IGA(PenalisedRisk):
    """Align the domains' expected gradients gᵢ = ∇Lᵢ: L_E + λ Σᵢ ‖gᵢ − ḡ‖².

    The gradients are those of the whole network (featurizer and head), and ḡ is their mean.

    Paper: Koyama and Yamaguchi (2020), *When is Invariance Useful in an Out-of-Distribution
    Generalization Problem?*
    """

    family = "gradient"
    paper = "Koyama and Yamaguchi (2020)"

    @dataclass(frozen=True)
    class Hparams(PenalisedRisk.Hparams):
        """λ."""

        penalty_weight: float = weight(1e3, Float(1, 5, base=10), help="λ, weight of the alignment")

    def penalty(self, outputs: Outputs) -> Tensor:
        """Return the spread of the domains' gradients."""
        return gradient_spread(outputs.risks, self.parameters())
