"""Fishr: invariant gradient variances."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from shiftproof.core.space import Float, Int
from shiftproof.learners.algorithms import ALGORITHMS, AnnealedPenalty, Outputs
from shiftproof.learners.algorithms.hparams import memory, steps, weight
from shiftproof.matching.head_gradients import head_gradients
from shiftproof.penalties.formulas import MovingAverage, variance_across_domains


@ALGORITHMS.register("fishr")
class Fishr(AnnealedPenalty):
    """Match the variances vᵢ of per-sample head gradients: L_E + λ (1/m) Σᵢ ‖vᵢ − v̄‖² / P.

    vᵢ [P] holds the variance of ∇_ψ ℓ over domain i's minibatch for each of the P parameters of
    the head ψ, as a moving average over steps with memory γ, divided by 1 − γ (`MovingAverage`);
    v̄ is their mean.  The average starts at the first step, the penalty at step `anneal_steps`,
    where Adam restarts.

    Paper: Rame et al. (2022), *Fishr: Invariant Gradient Variances for Out-of-Distribution
    Generalization*.
    """

    family = "gradient"
    paper = "Rame et al. (2022)"
    early_weight = 0.0

    @dataclass(frozen=True)
    class Hparams(AnnealedPenalty.Hparams):
        """λ, when it takes effect, and γ."""

        penalty_weight: float = weight(1e3, Float(1, 4, base=10), help="λ, weight of the matching")
        anneal_steps: int = steps(1500, Int(0, 5000), help="first steps, without matching")
        ema: float = memory(
            0.95, Float(0.9, 0.99), help="γ, decay of the moving average of variances"
        )

    hparams: Hparams

    def setup(self) -> None:
        """Add the moving average of the variances."""
        self.average_variance = MovingAverage(self.hparams.ema, corrected=True)

    def penalty(self, outputs: Outputs) -> Tensor:
        """Return the spread of the averaged gradient variances, and update the average."""
        gradients = head_gradients(
            self.head, outputs.representations, outputs.labels, outputs.logits, self.sample_loss
        )
        variances = gradients.var(dim=1, correction=0)  # [domains, P]
        return variance_across_domains(self.average_variance(variances))
