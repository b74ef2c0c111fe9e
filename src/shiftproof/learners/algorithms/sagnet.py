"""SagNet: the style-agnostic network.

Style and content of features: mean and variance, and the features normalised by them.

For features x of one sample, with μ and σ² the mean and (unbiased) variance over its entries, or
over the positions of each channel if there are channels,

    style (μ, σ²),   content x̂ = (x − μ) / √(σ² + ε),   x = √(σ² + ε) · x̂ + μ

(Nam et al., 2021).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from shiftproof.core.space import Float
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms import ALGORITHMS, ERM, Losses, weight
from shiftproof.penalties.formulas import mix

EPSILON = 1e-5


class Style(NamedTuple):
    """Mean and variance of each sample, [n, 1], or of each of its channels, [n, c, 1, …]."""

    mean: Tensor
    variance: Tensor

    def put_on(self, content: Tensor) -> Tensor:
        """Return √(σ² + ε) · content + μ, of the content's shape."""
        return content * (self.variance + EPSILON).sqrt() + self.mean


def style_of(features: Tensor) -> Style:
    """Return the style of features [n, k], or [n, c, …positions]."""
    axes = tuple(range(2, features.dim())) or (1,)
    variance, mean = torch.var_mean(features, dim=axes, keepdim=True)
    return Style(mean, variance)


def content_of(features: Tensor) -> Tensor:
    """Return the content x̂ of features [n, k] or [n, c, …], of the same shape."""
    mean, variance = style_of(features)
    return (features - mean) / (variance + EPSILON).sqrt()


def mix_style(features: Tensor, partner: Tensor, weight: Tensor) -> Tensor:
    """Return the features with a style between their own and their partner's; content is kept.

    Sample i gets (μ, σ²) = wᵢ (μᵢ, σᵢ²) + (1 − wᵢ) (μⱼ, σⱼ²) with j = partner[i].
    features [n, …], partner [n] of indices, weight [n] → [n, …].
    """
    style = style_of(features)
    mixed = Style(*(mix(part, part[partner], weight) for part in style))
    return mixed.put_on(content_of(features))


def swap_content(features: Tensor, partner: Tensor) -> Tensor:
    """Return the content of the partners with the samples' own style.

    Only the style carries a gradient.  features [n, …], partner [n] of indices → [n, …].
    """
    return style_of(features).put_on(content_of(features)[partner].detach())


def uniform_risk(logits: Tensor) -> Tensor:
    """Return the cross-entropy −(1/c) Σ_y log p(y) of each prediction to the uniform distribution.

    logits [..., c], or [..., 1] under the logistic function → [...].

    >>> uniform_risk(torch.zeros(1, 4)), uniform_risk(torch.zeros(1, 1))
    (tensor([1.3863]), tensor([0.6931]))
    """
    if logits.shape[-1] == 1:
        logits = torch.cat([torch.zeros_like(logits), logits], dim=-1)
    return -torch.log_softmax(logits, dim=-1).mean(dim=-1)


@ALGORITHMS.register("sagnet")
class SagNet(ERM):
    """Classify by content, not style: min ℓ(ψ(mixed style)), then φ fools the style head s.

    Style and content of features are those above, and partners are drawn from the whole batch.
    Each update has three parts:

    1. content: φ and ψ minimise the risk of ψ on features whose style is mixed with a partner's;
    2. style: s minimises its risk on features with their own style and a partner's content;
    3. adversary: φ minimises λ times the cross-entropy from the uniform distribution to the
       prediction of s on such features, so that style says nothing about the class.

    Parts 1 and 3 share φ's Adam.  Predictions are those of ψ on unchanged features.

    Paper: Nam et al. (2021), *Reducing Domain Gap by Reducing Style Bias*; as in DomainBed, style
    is computed from the features.
    """

    family = "augmentation"
    paper = "Nam et al. (2021)"
    weighs_samples = True
    classes_only = "its adversary makes all classes equally likely"

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """λ."""

        adversarial_weight: float = weight(
            0.1, Float(-2, 1, base=10), help="λ, weight of the adversarial loss"
        )

    hparams: Hparams

    def setup(self) -> None:
        """Add the head that sees only styles."""
        self.style_head = newly_initialised(self.head)
        weights = self.style_head.parameters()
        self.optimizers["style"] = self.adam(weights, self.hparams.lr, self.hparams.weight_decay)

    def objective(self, batch: Batch) -> Losses:
        """Return the risk of the content head on features with mixed style."""
        features = self.features(batch).flatten(0, 1)
        weight = torch.rand(len(features), generator=self.generator).to(features)
        mixed = mix_style(features, self._partners(features), weight)
        return Losses(self._mean_risk(self.head(mixed), batch), {})

    def update(self, batch: Batch) -> dict[str, Tensor]:
        """Take the three parts of an update and return their losses."""
        measured = super().update(batch)
        features = self.features(batch).flatten(0, 1)

        stylised = swap_content(features.detach(), self._partners(features))
        style_risk = self._mean_risk(self.style_head(stylised), batch)
        self.descend(style_risk, "style")

        stylised = swap_content(features, self._partners(features))
        adversarial_risk = uniform_risk(self.style_head(stylised)).mean()
        # The content head is not in this graph, so it has no gradient and Adam skips it.
        self.descend(self.hparams.adversarial_weight * adversarial_risk)
        return {
            **measured,
            "style_risk": style_risk.detach(),
            "adversarial_risk": adversarial_risk.detach(),
        }

    def _mean_risk(self, logits: Tensor, batch: Batch) -> Tensor:
        risks = self.sample_loss.risk(logits, batch.y.flatten())
        return batch.weighted(risks.view_as(batch.y)).mean()

    def _partners(self, features: Tensor) -> Tensor:
        return torch.randperm(len(features), generator=self.generator).to(features.device)


def newly_initialised(module: nn.Module) -> nn.Module:
    """Return a copy of a module with new initial weights."""
    fresh = copy.deepcopy(module)
    for layer in fresh.modules():
        reset = getattr(layer, "reset_parameters", None)
        if callable(reset):
            reset()
    return fresh
