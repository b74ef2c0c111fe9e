"""RSC: representation self-challenging."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from shiftproof.core.space import Float
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms import ALGORITHMS, ERM, Losses, share


def label_score(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the logit of each sample's label; for a single logit s, that is s or −s.

    logits [..., c] or [..., 1], labels [...] → [...].
    """
    if logits.shape[-1] == 1:
        return logits.squeeze(-1) * (2 * labels - 1)
    return logits.gather(-1, labels.unsqueeze(-1)).squeeze(-1)


def percentile(x: Tensor, percent: float) -> Tensor:
    """Return the linearly interpolated percentile along the last axis: [..., n] → [..., 1].

    It rounds as `numpy.percentile` does, unlike `torch.quantile`.  That matters: a percentile may
    fall on a data point (2/3 of the way through 10 features is the 7th), and the last bit then
    decides whether that point is below it.

    >>> import torch
    >>> percentile(torch.tensor([3.0, 1.0, 2.0]), 75)
    tensor([2.5000])
    """
    ranked = x.sort(dim=-1).values
    rank = (x.shape[-1] - 1) * (percent / 100)
    below = min(math.floor(rank), x.shape[-1] - 1)
    above = min(below + 1, x.shape[-1] - 1)
    fraction = rank - below
    low, high = ranked[..., below : below + 1], ranked[..., above : above + 1]
    gap = high - low
    return low + gap * fraction if fraction < 0.5 else high - gap * (1 - fraction)


def spared_features(gradients: Tensor, drop: float) -> Tensor:
    """Return which features to keep: all but the share `drop` of largest gradient per sample.

    gradients [..., k] of `label_score` by the features → [..., k] of booleans.
    """
    return gradients < percentile(gradients, (1 - drop) * 100)


def spared_samples(changes: Tensor, drop: float) -> Tensor:
    """Return which samples keep all features: all but the share `drop` that muting hurts most.

    changes [domains, batch], the decrease of the label's probability by muting → booleans.
    """
    return changes < percentile(changes.flatten(), (1 - drop) * 100)


@ALGORITHMS.register("rsc")
class RSC(ERM):
    """Mute the most used features: (1/n) Σⱼ ℓ(ψ(Mⱼ ⊙ rⱼ), yⱼ), with M by ∂(label logit)/∂r.

    In r = φ(x) [k] with label y, the share p of features with the largest gradient of the logit
    ψ(r)_y is set to 0, but only for the share q of the batch whose probability of y drops most.
    The other samples keep all features (`learners.algorithms.rsc`).

    Paper: Huang et al. (2020), *Self-Challenging Improves Cross-Domain Generalization*.
    """

    family = "representation"
    paper = "Huang et al. (2020)"
    weighs_samples = True
    classes_only = "it mutes the features that are evidence for the class"

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """p and q."""

        feature_drop: float = share(
            1 / 3, Float(0, 0.5), help="p, share of a sample's features to mute"
        )
        batch_drop: float = share(
            1 / 3, Float(0, 0.5), help="q, share of the batch whose features are muted"
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
            unmuted = torch.exp(-self.sample_loss.risk(logits, labels))
            changes = unmuted - torch.exp(-self.sample_loss.risk(muted, labels))
        whole = spared_samples(changes, self.hparams.batch_drop)
        return feature_mask | whole.unsqueeze(-1)
