"""IGA: inter-environmental gradient alignment."""

from __future__ import annotations

from dataclasses import dataclass

from shiftproof.core.space import Float, hparam
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms.base import ALGORITHMS, Losses
from shiftproof.learners.algorithms.erm import ERM
from shiftproof.models.risk import per_sample_risk
from shiftproof.penalties.variance import gradient_spread


@ALGORITHMS.register("iga")
class IGA(ERM):
    """Align the domains' expected gradients gᵢ = ∇Lᵢ: L_E + λ Σᵢ ‖gᵢ − ḡ‖².

    The gradients are those of the whole network (featurizer and head), and ḡ is their mean.

    Paper: Koyama and Yamaguchi (2020), *When is Invariance Useful in an Out-of-Distribution
    Generalization Problem?*
    """

    family = "gradient"
    paper = "Koyama and Yamaguchi (2020)"

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """λ."""

        penalty_weight: float = hparam(
            1e3, Float(1, 5, base=10), within=(0, 1e15), help="λ, strength of the alignment"
        )

    hparams: Hparams

    def objective(self, batch: Batch) -> Losses:
        """Return the mean risk plus the weighted spread of the domains' gradients."""
        risks = per_sample_risk(self.head(self.features(batch)), batch.y).mean(dim=1)
        risk = risks.mean()
        penalty = gradient_spread(risks, self.parameters())
        total = risk + self.hparams.penalty_weight * penalty
        return Losses(total, {"risk": risk, "penalty": penalty})
