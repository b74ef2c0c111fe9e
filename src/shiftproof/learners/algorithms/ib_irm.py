"""IB-IRM: invariant risk minimisation under an information bottleneck."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shiftproof.core.types import Batch
from shiftproof.learners.algorithms.base import ALGORITHMS, Losses
from shiftproof.learners.algorithms.ib_erm import IBERM
from shiftproof.learners.algorithms.irm import IRM
from shiftproof.models.risk import per_sample_risk
from shiftproof.penalties.irm import irm_penalty
from shiftproof.penalties.variance import variance_within_domains


@ALGORITHMS.register("ib-irm")
class IBIRM(IRM, IBERM):
    """Join IRM and the bottleneck: L_E + λ₁ (1/m) Σᵢ (∂Lᵢ(w·f)/∂w |₍w₌₁₎)² + λ₂ (1/m) Σᵢ Var(Rⁱ).

    Each penalty has the weight and schedule of its own algorithm, `IRM` and `IBERM`;
    Adam starts afresh where either takes effect.

    Paper: Ahuja et al. (2021), *Invariance Principle Meets Information Bottleneck for
    Out-of-Distribution Generalization*.
    """

    family = "predictor"
    paper = "Ahuja et al. (2021)"

    @dataclass(frozen=True)
    class Hparams(IRM.Hparams, IBERM.Hparams):
        """The hyper-parameters of both."""

    hparams: Hparams

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        h = self.hparams
        self.optimizer_restarts = frozenset({h.anneal_steps, h.bottleneck_anneal_steps})

    def objective(self, batch: Batch) -> Losses:
        """Return the mean risk plus both weighted penalties."""
        representations = self.features(batch)
        logits = self.head(representations)
        risk = per_sample_risk(logits, batch.y).mean()
        penalty = irm_penalty(logits, batch.y)
        bottleneck = variance_within_domains(representations.flatten(2))
        total = risk + self.irm_weight * penalty + self.bottleneck_weight * bottleneck
        return Losses(total, {"risk": risk, "penalty": penalty, "bottleneck": bottleneck})
