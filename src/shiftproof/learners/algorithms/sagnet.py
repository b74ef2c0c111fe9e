"""SagNet: the style-agnostic network."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from shiftproof.core.space import Float, hparam
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms.adam import Adam
from shiftproof.learners.algorithms.base import ALGORITHMS, Losses
from shiftproof.learners.algorithms.erm import ERM
from shiftproof.penalties.style import mix_style, swap_content, uniform_risk


@ALGORITHMS.register("sagnet")
class SagNet(ERM):
    """Classify by content, not style: min ℓ(ψ(mixed style)), then φ fools the style head s.

    Style and content of features are those of `penalties.style`, and partners are drawn from the
    whole batch.  Each update has three parts:

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

        adversarial_weight: float = hparam(
            0.1, Float(-2, 1, base=10), within=(0, 1e15), help="λ, weight of the adversarial loss"
        )

    hparams: Hparams

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.style_head = newly_initialised(self.head)
        self.optimizers["style"] = Adam(
            self.style_head.parameters(),
            lr=self.hparams.lr,
            weight_decay=self.hparams.weight_decay,
        )

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
