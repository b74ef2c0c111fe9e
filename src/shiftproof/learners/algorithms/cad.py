"""CAD: the contrastive adversarial domain bottleneck."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from shiftproof.core.space import Choice, hparam
from shiftproof.learners.algorithms.base import ALGORITHMS
from shiftproof.learners.algorithms.erm import Outputs
from shiftproof.learners.algorithms.hparams import weight
from shiftproof.learners.algorithms.penalised_risk import PenalisedRisk
from shiftproof.penalties.domain_bottleneck import domain_bottleneck


@ALGORITHMS.register("cad")
class CAD(PenalisedRisk):
    """Let samples look like those of other domains: L_E − λ (τ/τ₀) mean log(1 − sᵢ).

    sᵢ is the probability that sample i picks a sample of its own domain, if it picks another sample
    j with probability proportional to exp(zᵢ·zⱼ / τ).  This domain classifier has no weights, so it
    needs no adversary.  A small penalty means little information I(D;Z) about the domain
    (`penalties.domain_bottleneck`).

    With `flipped=False` the penalty is (τ/τ₀) mean log sᵢ, which has the same minimum.  DomainBed
    leaves out samples that are the only one of their class in the batch, and counts i itself in sᵢ
    if not flipped; here labels do not matter, and i is not counted.  DomainBed's setting
    `is_project` is omitted, because it fails there.

    Paper: Ruan et al. (2022), *Optimal Representations for Covariate Shift*.
    """

    family = "representation"
    paper = "Ruan et al. (2022)"

    @dataclass(frozen=True)
    class Hparams(PenalisedRisk.Hparams):
        """λ, τ and the form of the bottleneck."""

        penalty_weight: float = weight(
            0.1,
            Choice((1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2)),
            help="λ, weight of the bottleneck",
        )
        temperature: float = hparam(
            0.1, Choice((0.05, 0.1)), within=(1e-6, 1e6), help="τ, temperature of the similarities"
        )
        normalized: bool = hparam(False, help="compare directions: scale z to length 1")
        flipped: bool = hparam(True, help="maximise log(1 − s) instead of minimising log s")

    hparams: Hparams

    def penalty(self, outputs: Outputs) -> Tensor:
        """Return the bottleneck of the representations."""
        return self.bottleneck(outputs, None)

    def bottleneck(self, outputs: Outputs, labels: Tensor | None) -> Tensor:
        """Return the bottleneck, within classes if labels [domains, batch] are given."""
        h = self.hparams
        return domain_bottleneck(
            outputs.representations,
            labels,
            temperature=h.temperature,
            normalized=h.normalized,
            flipped=h.flipped,
        )
