"""Mean matching: the same mean representation in every domain."""

from __future__ import annotations

from dataclasses import dataclass

from shiftproof import Algorithm, Batch, Float, Losses, hparam


class MeanMatch(Algorithm):
    """Match mean representations μᵢ across domains: L_E + λ (1/m) Σᵢ ‖μᵢ − μ̄‖².

    L_E is the mean risk, μᵢ = (1/b) Σⱼ φ(xⁱⱼ) [k] the mean over domain i's minibatch, and μ̄ the
    mean of the μᵢ.

    Paper: Tzeng et al. (2014), *Deep Domain Confusion: Maximizing for Domain Invariance*, for any
    number of domains m.
    """

    family = "representation"
    paper = "Tzeng et al. (2014)"

    @dataclass(frozen=True)
    class Hparams(Algorithm.Hparams):
        """λ."""

        penalty_weight: float = hparam(
            1.0, Float(-1, 1, base=10), within=(0, 1e15), help="λ, strength of the matching"
        )

    hparams: Hparams

    def objective(self, batch: Batch) -> Losses:
        """Return the mean risk plus the weighted spread of the means."""
        representations = self.features(batch)  # [domains, batch, k]
        logits = self.head(representations)  # [domains, batch, classes]
        risk = self.sample_loss.risk(logits, batch.y).mean()  # of classes, or of numbers
        means = representations.mean(dim=1)  # [domains, k]
        penalty = means.var(dim=0, correction=0).sum()
        total = risk + self.hparams.penalty_weight * penalty
        return Losses(total, {"risk": risk, "penalty": penalty})
