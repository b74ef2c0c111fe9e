"""RDM-PDM: risk distribution matching by PDM."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from shiftproof.core.space import Float, Int
from shiftproof.learners.algorithms import ALGORITHMS, AnnealedPenalty, Outputs
from shiftproof.learners.algorithms.hparams import memory, steps, weight
from shiftproof.matching.pdm import MovingMatch


@ALGORITHMS.register("rdm-pdm")
class RDMPDM(AnnealedPenalty):
    """Match the distributions of risks across domains: L_E + λ PDM(ℓ¹ … ℓᵐ; γ).

    The risks ℓⁱ [b] of domain i's samples are sorted and matched across domains (`matching.pdm`).
    I(L;D), the shift of the risk L itself, bounds the target risk more tightly than the shift of
    inputs or representations does.  Risks are scalars, so there is no curse of dimension.

    The moving average with memory γ runs from the first step and is divided by 1 − γ.  The penalty
    acts after `anneal_steps`, where Adam restarts, as `IDM` does for gradients.

    Paper: Dong et al. (2024), who leave matching the distributions of the risks to future work;
    Nguyen et al. (2024), *Domain Generalisation via Risk Distribution Matching*, match them by MMD.
    """

    family = "predictor"
    paper = "Dong et al. (2024)"
    early_weight = 0.0

    @dataclass(frozen=True)
    class Hparams(AnnealedPenalty.Hparams):
        """λ, its warm-up and γ."""

        penalty_weight: float = weight(
            1.0, Float(-1, 3, base=10), help="λ, strength of risk matching"
        )
        anneal_steps: int = steps(500, Int(0, 4, base=10), help="steps before risks are matched")
        ema: float = memory(0.95, Float(0.9, 0.99), help="γ, moving-average decay of risk matching")

    hparams: Hparams

    def setup(self) -> None:
        """Add the matching."""
        self.match = MovingMatch(self.hparams.ema, corrected=True)

    def penalty(self, outputs: Outputs) -> Tensor:
        """Return the PDM of the risks, without the weights of samples."""
        risks = self.sample_loss.risk(outputs.logits, outputs.labels)
        penalty: Tensor = self.match(risks.unsqueeze(-1))
        return penalty
