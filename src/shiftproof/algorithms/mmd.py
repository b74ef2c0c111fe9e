"""MMD: matching representations by their maximum mean discrepancy."""

from __future__ import annotations

from dataclasses import dataclass

from shiftproof.algorithms.base import ALGORITHMS, Losses
from shiftproof.algorithms.erm import ERM
from shiftproof.penalties.mmd import mmd
from shiftproof.penalties.risk import per_sample_risk
from shiftproof.space import Float, hparam
from shiftproof.types import Batch


@ALGORITHMS.register("mmd")
class MMD(ERM):
    """Match representations Rⁱ in the space of Gaussian kernels: L_E + λ E_{i<j} MMD²(Rⁱ, Rʲ).

    Seven widths are summed (:mod:`shiftproof.penalties.mmd`).  Of the paper's method this is the
    matching term alone, without autoencoder and adversarial prior, as in DomainBed.

    Paper: Li et al. (2018), *Domain Generalization with Adversarial Feature Learning*.
    """

    family = "representation"
    paper = "Li et al. (2018)"

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """λ."""

        penalty_weight: float = hparam(
            1.0, Float(-1, 1, base=10), within=(0, 1e15), help="λ, strength of the matching"
        )

    hparams: Hparams

    def objective(self, batch: Batch) -> Losses:
        """Return the mean risk plus the weighted discrepancy of the domains' representations."""
        representations = self.features(batch)
        risk = per_sample_risk(self.head(representations), batch.y).mean()
        penalty = mmd(representations.flatten(2))
        total = risk + self.hparams.penalty_weight * penalty
        return Losses(total, {"risk": risk, "penalty": penalty})
