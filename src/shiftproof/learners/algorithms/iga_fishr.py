"""IGA and Fishr combined: matching the first two moments of gradients."""

from __future__ import annotations

from dataclasses import dataclass

from shiftproof.core.space import Float, Int
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms import ALGORITHMS, ERM, Losses, memory, steps, weight
from shiftproof.matching.head_gradients import head_gradients
from shiftproof.penalties.formulas import MovingAverage, gradient_spread, variance_across_domains


@ALGORITHMS.register("iga-fishr")
class IGAFishr(ERM):
    """Align mean gᵢ and variance vᵢ of gradients: L_E + λ₁ Σᵢ ‖gᵢ − ḡ‖² + λ₂ Σᵢ ‖vᵢ − v̄‖² / (mP).

    gᵢ is the gradient of domain i's risk with respect to the whole network, as in `iga`, and vᵢ the
    averaged variance of its per-sample head gradients, as in `fishr`.  Each keeps its own schedule:
    with λ₁ = 0 this is Fishr, and with λ₂ = 0 and a warm-up that never ends it is IGA.

    It is the best alternative to PDM in the paper's ablation.  The paper gives no search space for
    it, so those of IGA and Fishr are combined.

    Paper: Dong et al. (2024), *How Does Distribution Matching Help Domain Generalization: An
    Information-theoretic Analysis*; Koyama and Yamaguchi (2020); Rame et al. (2022).
    """

    family = "gradient"
    paper = "Dong et al. (2024)"
    restarts_at = ("variance_anneal_steps",)
    weighs_samples = True

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """λ₁ of the expectations; λ₂, its start and the memory γ of the variances."""

        expectation_weight: float = weight(
            1e3, Float(1, 5, base=10), help="λ₁, weight of the expectations"
        )
        variance_weight: float = weight(
            1e3, Float(1, 4, base=10), help="λ₂, weight of the variances"
        )
        variance_anneal_steps: int = steps(1500, Int(0, 5000), help="first steps, without λ₂")
        variance_ema: float = memory(
            0.95, Float(0.9, 0.99), help="γ, decay of the moving average of variances"
        )

    hparams: Hparams

    def setup(self) -> None:
        """Add the moving average of the variances."""
        self.average_variance = MovingAverage(self.hparams.variance_ema, corrected=True)

    def objective(self, batch: Batch) -> Losses:
        """Return the mean risk plus both weighted penalties."""
        h = self.hparams
        representations, logits, labels, _, risks = self.outputs(batch)
        gradients = head_gradients(self.head, representations, labels, logits, self.sample_loss)
        variances = gradients.var(dim=1, correction=0)  # [domains, P]
        expectation_penalty = gradient_spread(risks, self.parameters())
        variance_penalty = variance_across_domains(self.average_variance(variances))
        total = risks.mean() + h.expectation_weight * expectation_penalty
        if self.updates >= h.variance_anneal_steps:
            total = total + h.variance_weight * variance_penalty
        parts = {
            "risk": risks.mean(),
            "expectation_penalty": expectation_penalty,
            "variance_penalty": variance_penalty,
        }
        return Losses(total, parts)
