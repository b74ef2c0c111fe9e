"""RSC: representation self-challenging."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from shiftproof.core.space import Float, hparam
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms.base import ALGORITHMS, Losses
from shiftproof.learners.algorithms.erm import ERM
from shiftproof.penalties.self_challenge import label_score, spared_features, spared_samples


@ALGORITHMS.register("rsc")
class RSC(ERM):
    """Mute the most used features: (1/n) Σⱼ ℓ(ψ(Mⱼ ⊙ rⱼ), yⱼ), with M by ∂(label logit)/∂r.

    In r = φ(x) [k] with label y, the share p of features with the largest gradient of the logit
    ψ(r)_y is set to 0, but only for the share q of the batch whose probability of y drops most.
    The other samples keep all features (`penalties.self_challenge`).

    Paper: Huang et al. (2020), *Self-Challenging Improves Cross-Domain Generalization*.
    """

    family = "representation"
    paper = "Huang et al. (2020)"
    weighs_samples = True
    classes_only = "it mutes the features that are evidence for the class"

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """p and q."""

        feature_drop: float = hparam(
            1 / 3, Float(0, 0.5), within=(0, 1), help="p, share of a sample's features to mute"
        )
        batch_drop: float = hparam(
            1 / 3,
            Float(0, 0.5),
            within=(0, 1),
            help="q, share of the batch whose features are muted",
        )

    hparams: Hparams

    def objective(self, batch: Batch) -> Losses:
        """Return the risk with muted features."""
        representations = self.features(batch)
        mask = self.challenge(representations.detach(), batch.y)
        risks = self.sample_loss.risk(self.head(representations * mask), batch.y)
        return Losses(batch.weighted(risks).mean(), {})

    def challenge(self, representations: Tensor, labels: Tensor) -> Tensor:
        """Return M [domains, batch, k], true where a feature is kept.

        representations [domains, batch, k], detached; labels [domains, batch].
        """
        representations.requires_grad_()
        logits = self.head(representations)
        score = label_score(logits, labels).sum()
        (gradients,) = torch.autograd.grad(score, representations)
        feature_mask = spared_features(gradients, self.hparams.feature_drop)
        with torch.no_grad():
            muted = self.head(representations * feature_mask)
            # e^−ℓ is the probability of the label, for both softmax and logistic outputs.
            kept = torch.exp(-self.sample_loss.risk(logits, labels))
            changes = kept - torch.exp(-self.sample_loss.risk(muted, labels))
        whole = spared_samples(changes, self.hparams.batch_drop)
        return feature_mask | whole.unsqueeze(-1)
