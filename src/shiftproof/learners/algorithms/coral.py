"""CORAL: correlation alignment of representations."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from shiftproof.core.space import Float
from shiftproof.learners.algorithms import ALGORITHMS, Outputs, PenalisedRisk, weight
from shiftproof.penalties.formulas import coral


@ALGORITHMS.register("coral")
class CORAL(PenalisedRisk):
    """Match means μᵢ and covariances Cᵢ of representations: L_E + λ E_{i<j} (‖μᵢ−μⱼ‖² + ‖Cᵢ−Cⱼ‖²).

    The norms are means over elements (`penalties.formulas`).

    Paper: Sun and Saenko (2016), *Deep CORAL: Correlation Alignment for Deep Domain Adaptation*.
    """

    family = "representation"
    paper = "Sun and Saenko (2016)"

    @dataclass(frozen=True)
    class Hparams(PenalisedRisk.Hparams):
        """λ."""

        penalty_weight: float = weight(1.0, Float(-1, 1, base=10), help="λ, weight of the matching")

    def penalty(self, outputs: Outputs) -> Tensor:
        """Return the distance between the domains' representations."""
        return self.distance(outputs.representations.flatten(2))

    def distance(self, representations: Tensor) -> Tensor:
        """Return the mean distance between domains, for representations [domains, batch, k]."""
        return coral(representations)
