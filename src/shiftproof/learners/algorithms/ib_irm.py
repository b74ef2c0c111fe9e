"""IB-IRM: invariant risk minimisation under an information bottleneck."""

from __future__ import annotations

from dataclasses import dataclass

from shiftproof.core.types import Batch
from shiftproof.learners.algorithms import ALGORITHMS, Losses
from shiftproof.learners.algorithms.ib_erm import IBERM
from shiftproof.learners.algorithms.irm import IRM


@ALGORITHMS.register("ib-irm")
class IBIRM(IRM, IBERM):
    """Join IRM and the bottleneck: L_E + λ₁ (1/m) Σᵢ (∂Lᵢ(w·f)/∂w |₍w₌₁₎)² + λ₂ (1/m) Σᵢ Var(Rⁱ).

    Each penalty has the weight and schedule of its own algorithm, `irm` and `ib-erm`; Adam restarts
    when either takes effect.

    Paper: Ahuja et al. (2021), *Invariance Principle Meets Information Bottleneck for
    Out-of-Distribution Generalization*.
    """

    family = "predictor"
    paper = "Ahuja et al. (2021)"
    restarts_at = ("anneal_steps", "bottleneck_anneal_steps")
    weighs_samples = True

    @dataclass(frozen=True)
    class Hparams(IRM.Hparams, IBERM.Hparams):
        """The hyper-parameters of both."""

    hparams: Hparams

    def objective(self, batch: Batch) -> Losses:
        """Return the mean risk plus both weighted penalties."""
        outputs = self.outputs(batch)
        risk = outputs.losses.mean()
        penalty, bottleneck = self.penalty(outputs), self.bottleneck(outputs)
        total = risk + self.weight * penalty + self.bottleneck_weight * bottleneck
        return Losses(total, {"risk": risk, "penalty": penalty, "bottleneck": bottleneck})
