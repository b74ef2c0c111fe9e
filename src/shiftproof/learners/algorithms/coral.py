"""CORAL: correlation alignment of representations."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from shiftproof.core.space import Float, hparam
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms.base import ALGORITHMS, Losses
from shiftproof.learners.algorithms.erm import ERM
from shiftproof.models.risk import per_sample_risk
from shiftproof.penalties.coral import coral


@ALGORITHMS.register("coral")
class CORAL(ERM):
    """Match means μᵢ and covariances Cᵢ of representations: L_E + λ E_{i<j} (‖μᵢ−μⱼ‖² + ‖Cᵢ−Cⱼ‖²).

    The norms are means over elements (`penalties.coral`).

    Paper: Sun and Saenko (2016), *Deep CORAL: Correlation Alignment for Deep Domain Adaptation*.
    """

    family = "representation"
    paper = "Sun and Saenko (2016)"

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """λ."""

        penalty_weight: float = hparam(
            1.0, Float(-1, 1, base=10), within=(0, 1e15), help="λ, strength of the matching"
        )

    hparams: Hparams

    def objective(self, batch: Batch) -> Losses:
        """Return the mean risk plus the weighted distance of the domains' representations."""
        representations = self.features(batch)
        risk = per_sample_risk(self.head(representations), batch.y).mean()
        penalty = self.distance(representations.flatten(2))
        total = risk + self.hparams.penalty_weight * penalty
        return Losses(total, {"risk": risk, "penalty": penalty})

    def distance(self, representations: Tensor) -> Tensor:
        """Return the distance of the domains in representations [domains, batch, k]."""
        return coral(representations)
