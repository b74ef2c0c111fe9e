"""Fishr: invariant gradient variances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shiftproof.core.space import Float, Int, hparam
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms.base import ALGORITHMS, Losses
from shiftproof.learners.algorithms.erm import ERM
from shiftproof.matching.gradients import head_gradients
from shiftproof.models.risk import per_sample_risk
from shiftproof.penalties.moving_average import MovingAverage
from shiftproof.penalties.variance import variance_across_domains


@ALGORITHMS.register("fishr")
class Fishr(ERM):
    """Match the variances vᵢ of per-sample head gradients: L_E + λ (1/m) Σᵢ ‖vᵢ − v̄‖² / P.

    vᵢ [P] holds the variance over domain i's minibatch of ∇_ψ ℓ by each of the P parameters of
    the head ψ, averaged over the steps with memory γ and divided by 1 − γ
    (`MovingAverage`); v̄ is their mean.  The average
    runs from the first step, the penalty enters at step ``anneal_steps``, where Adam starts
    afresh.

    Paper: Rame et al. (2022), *Fishr: Invariant Gradient Variances for Out-of-Distribution
    Generalization*.
    """

    family = "gradient"
    paper = "Rame et al. (2022)"

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """λ, when it takes effect, and γ."""

        penalty_weight: float = hparam(
            1e3, Float(1, 4, base=10), within=(0, 1e15), help="λ, strength of the matching"
        )
        anneal_steps: int = hparam(
            1500,
            Int(0, 5000),
            within=(0, 1e12),
            unit="steps",
            help="steps before variances are matched",
        )
        ema: float = hparam(
            0.95, Float(0.9, 0.99), within=(0, 0.999999), help="γ, memory of the variances"
        )

    hparams: Hparams

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.optimizer_restarts = frozenset({self.hparams.anneal_steps})
        self.average_variance = MovingAverage(self.hparams.ema, corrected=True)

    def objective(self, batch: Batch) -> Losses:
        """Return the mean risk plus the weighted spread of the gradient variances."""
        h = self.hparams
        representations = self.features(batch)
        logits = self.head(representations)
        risk = per_sample_risk(logits, batch.y).mean()
        gradients = head_gradients(self.head, representations, batch.y, logits)
        variances = gradients.var(dim=1, correction=0)  # [domains, P]
        penalty = variance_across_domains(self.average_variance(variances))
        total = risk + h.penalty_weight * penalty if self.updates >= h.anneal_steps else risk
        return Losses(total, {"risk": risk, "penalty": penalty})
