"""RDM-PDM: risk distribution matching by PDM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shiftproof.core.space import Float, Int
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms.base import ALGORITHMS, Losses
from shiftproof.learners.algorithms.erm import ERM
from shiftproof.learners.algorithms.hparams import memory, steps, weight
from shiftproof.matching.match import MovingMatch


@ALGORITHMS.register("rdm-pdm")
class RDMPDM(ERM):
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
    weighs_samples = True

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """λ, its warm-up and γ."""

        penalty_weight: float = weight(
            1.0, Float(-1, 3, base=10), help="λ, strength of risk matching"
        )
        anneal_steps: int = steps(500, Int(0, 4, base=10), help="steps before risks are matched")
        ema: float = memory(0.95, Float(0.9, 0.99), help="γ, moving-average decay of risk matching")

    hparams: Hparams

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.optimizer_restarts = frozenset({self.hparams.anneal_steps})
        self.match = MovingMatch(self.hparams.ema, corrected=True)

    def objective(self, batch: Batch) -> Losses:
        """Return L_E, plus the penalty after the warm-up."""
        risks = self.sample_loss.risk(self.head(self.features(batch)), batch.y)
        risk = batch.weighted(risks).mean()
        penalty = self.match(risks.unsqueeze(-1))
        matched = self.updates >= self.hparams.anneal_steps
        total = risk + self.hparams.penalty_weight * penalty if matched else risk
        return Losses(total, {"risk": risk, "penalty": penalty})
