"""SD: spectral decoupling."""

from __future__ import annotations

from dataclasses import dataclass

from shiftproof.core.space import Float, hparam
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms.base import ALGORITHMS, Losses
from shiftproof.learners.algorithms.erm import ERM
from shiftproof.models.risk import per_sample_risk


@ALGORITHMS.register("sd")
class SD(ERM):
    """Keep logits z small, lest one feature starve the others: L_E + λ E‖z‖² / c.

    The mean runs over all samples and the c logits; domains play no part.

    Paper: Pezeshki et al. (2021), *Gradient Starvation: A Learning Proclivity in Neural Networks*.
    """

    family = "predictor"
    paper = "Pezeshki et al. (2021)"

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """λ."""

        penalty_weight: float = hparam(
            0.1, Float(-5, -1, base=10), within=(0, 1e15), help="λ, strength of the penalty"
        )

    hparams: Hparams

    def objective(self, batch: Batch) -> Losses:
        """Return the mean risk plus the weighted mean square of the logits."""
        logits = self.head(self.features(batch))
        risk = per_sample_risk(logits, batch.y).mean()
        penalty = logits.square().mean()
        total = risk + self.hparams.penalty_weight * penalty
        return Losses(total, {"risk": risk, "penalty": penalty})
