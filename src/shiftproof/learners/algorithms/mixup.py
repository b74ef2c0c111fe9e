"""Mixup: train on mixtures of samples from different domains."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from shiftproof.core.space import Float, hparam
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms import ALGORITHMS, ERM, Losses
from shiftproof.penalties.formulas import beta_weights, mix


def ring_pairs(size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return random pairs (first, second), both [size], that form one ring of all entries.

    Each entry is first once and second once, and (for size ≥ 2) never its own partner.
    """
    ring = torch.randperm(size, generator=generator)
    return ring, ring.roll(-1)


@ALGORITHMS.register("mixup")
class Mixup(ERM):
    """Train between domains: w ℓ(f(x), yⁱ) + (1 − w) ℓ(f(x), yʲ) at x = w xⁱ + (1 − w) xʲ.

    Each step arranges the m domains in a random ring, mixes the minibatch of each with that of the
    next, sample by sample, and draws one w ~ Beta(α, α) for each of the m pairs (i, j).  The loss
    is the mean over pairs and samples.

    Paper: Yan et al. (2020), *Improve Unsupervised Domain Adaptation with Mixup Training*; adapted
    to domain generalization as in DomainBed.
    """

    family = "augmentation"
    paper = "Yan et al. (2020)"

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """α, the shape of the distribution of w."""

        alpha: float = hparam(
            0.2,
            Float(-1, 1, base=10),
            within=(1e-3, 1e3),
            help="α of Beta(α, α); small: mostly one of the two samples, large: half of each",
        )

    hparams: Hparams

    def objective(self, batch: Batch) -> Losses:
        """Return the risk on the mixtures, weighted over their two labels."""
        domains = len(batch.y)
        first, second = (side.to(batch.y.device) for side in ring_pairs(domains, self.generator))
        weight = beta_weights(self.hparams.alpha, domains, self.generator).to(batch.x)
        mixed = Batch(mix(batch.x[first], batch.x[second], weight), batch.y[first])
        logits = self.head(self.features(mixed))
        risk = mix(
            self.sample_loss.risk(logits, batch.y[first]),
            self.sample_loss.risk(logits, batch.y[second]),
            weight,
        )
        return Losses(risk.mean(), {})
