"""IB-ERM: empirical risk minimisation under an information bottleneck."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from shiftproof.core.space import Float, Int
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms import ALGORITHMS, ERM, Losses, Outputs, steps, weight
from shiftproof.learners.base import Family
from shiftproof.penalties.formulas import variance_within_domains


@ALGORITHMS.register("ib-erm")
class IBERM(ERM):
    """Keep representations Rⁱ low in entropy by their variance: L_E + λ (1/m) Σᵢ Var(Rⁱ).

    Var is the variance over domain i's minibatch, averaged over dimensions.  The bottleneck takes
    effect at step `bottleneck_anneal_steps`, where Adam restarts.

    Paper: Ahuja et al. (2021), *Invariance Principle Meets Information Bottleneck for
    Out-of-Distribution Generalization*.
    """

    family: ClassVar[Family] = "representation"
    paper = "Ahuja et al. (2021)"
    restarts_at: ClassVar[tuple[str, ...]] = ("bottleneck_anneal_steps",)
    weighs_samples = True

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """λ and when it takes effect."""

        bottleneck_weight: float = weight(
            1e2, Float(-1, 5, base=10), help="λ, weight of the bottleneck"
        )
        bottleneck_anneal_steps: int = steps(
            500, Int(0, 4, base=10), help="first steps, without bottleneck"
        )

    hparams: Hparams

    def objective(self, batch: Batch) -> Losses:
        """Return the mean risk plus the weighted variance of the representations."""
        outputs = self.outputs(batch)
        risk, bottleneck = outputs.losses.mean(), self.bottleneck(outputs)
        total = risk + self.bottleneck_weight * bottleneck
        return Losses(total, {"risk": risk, "bottleneck": bottleneck})

    def bottleneck(self, outputs: Outputs) -> Tensor:
        """Return the variance of the representations."""
        return variance_within_domains(outputs.representations.flatten(2))

    @property
    def bottleneck_weight(self) -> float:
        """λ at this step."""
        h = self.hparams
        return h.bottleneck_weight if self.updates >= h.bottleneck_anneal_steps else 0.0
