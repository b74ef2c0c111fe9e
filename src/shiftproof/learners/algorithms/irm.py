"""IRM: invariant risk minimisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shiftproof.core.space import Float, Int, hparam
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms.base import ALGORITHMS, Losses
from shiftproof.learners.algorithms.erm import ERM
from shiftproof.models.risk import per_sample_risk
from shiftproof.penalties.irm import irm_penalty


@ALGORITHMS.register("irm")
class IRM(ERM):
    """Seek a predictor optimal in every domain at once: L_E + λₜ (1/m) Σᵢ (∂Lᵢ(w·f)/∂w |₍w₌₁₎)².

    Lᵢ is the risk of domain i and w a scale of the logits f; the square is estimated without bias
    from the two halves of each minibatch (`penalties.irm`).  λₜ is 1 until step
    ``anneal_steps`` and λ from then on, where Adam starts afresh.

    Paper: Arjovsky et al. (2019), *Invariant Risk Minimization*.
    """

    family = "predictor"
    paper = "Arjovsky et al. (2019)"

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """λ and when it takes effect."""

        penalty_weight: float = hparam(
            1e2, Float(-1, 5, base=10), within=(0, 1e15), help="λ, strength of the penalty"
        )
        anneal_steps: int = hparam(
            500, Int(0, 4, base=10), within=(0, 1e12), unit="steps", help="steps with λ = 1 before"
        )

    hparams: Hparams

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.optimizer_restarts = frozenset({self.hparams.anneal_steps})

    def objective(self, batch: Batch) -> Losses:
        """Return the mean risk plus the weighted penalty."""
        logits = self.head(self.features(batch))
        risk = per_sample_risk(logits, batch.y).mean()
        penalty = irm_penalty(logits, batch.y)
        return Losses(risk + self.irm_weight * penalty, {"risk": risk, "penalty": penalty})

    @property
    def irm_weight(self) -> float:
        """λₜ of this step."""
        return self.hparams.penalty_weight if self.updates >= self.hparams.anneal_steps else 1.0
