"""V-REx: risk extrapolation by the variance of risks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shiftproof.core.space import Float, Int, hparam
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms.base import ALGORITHMS, Losses
from shiftproof.learners.algorithms.erm import ERM
from shiftproof.models.risk import per_sample_risk
from shiftproof.penalties.variance import variance_across_domains


@ALGORITHMS.register("vrex")
class VREx(ERM):
    """Make the domains' risks Lᵢ equal: L_E + λₜ (1/m) Σᵢ (Lᵢ − L_E)².

    λₜ is 1 until step ``anneal_steps`` and λ from then on, where Adam starts afresh.

    Paper: Krueger et al. (2021), *Out-of-Distribution Generalization via Risk Extrapolation*.
    """

    family = "robust"
    paper = "Krueger et al. (2021)"

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """λ and when it takes effect."""

        penalty_weight: float = hparam(
            1e1, Float(-1, 5, base=10), within=(0, 1e15), help="λ, strength of the penalty"
        )
        anneal_steps: int = hparam(
            500, Int(0, 4, base=10), within=(0, 1e12), unit="steps", help="steps with λ = 1 before"
        )

    hparams: Hparams

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.optimizer_restarts = frozenset({self.hparams.anneal_steps})

    def objective(self, batch: Batch) -> Losses:
        """Return the mean risk plus the weighted variance of the domains' risks."""
        h = self.hparams
        risks = per_sample_risk(self.head(self.features(batch)), batch.y).mean(dim=1)
        risk, penalty = risks.mean(), variance_across_domains(risks)
        weight = h.penalty_weight if self.updates >= h.anneal_steps else 1.0
        return Losses(risk + weight * penalty, {"risk": risk, "penalty": penalty})
