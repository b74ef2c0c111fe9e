"""SelfReg: self-supervised contrastive regularisation."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftproof.core.space import hparam
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms import ALGORITHMS, ERM, Losses
from shiftproof.penalties.formulas import beta_weights, mix

FEATURE_SHARE = 0.3


def same_class_partners(labels: Tensor, order: Tensor) -> Tensor:
    """Turn a shuffle of all samples into a shuffle within each class.

    labels [n] are integers; order [n] is a permutation of 0 … n − 1.  If it is uniformly random, so
    is the result.  The partners [n] are a permutation with labels[partners] = labels.

    >>> same_class_partners(torch.tensor([0, 1, 0, 1]), torch.tensor([2, 1, 3, 0]))
    tensor([2, 1, 0, 3])
    """
    by_class = labels.argsort(stable=True)
    by_class_shuffled = order[labels[order].argsort(stable=True)]
    return torch.empty_like(by_class).scatter_(0, by_class, by_class_shuffled)


def dissimilarity(
    logits: Tensor,
    features: Tensor,
    projected: Tensor,
    partners: tuple[Tensor, Tensor],
    weight: Tensor,
) -> Tensor:
    """Return SelfReg's regulariser λ D₁ + (1 − λ) D₂, a scalar ≥ 0.

    With logits z [n, c], features r [n, k] and their projection p [n, k], partners π₁ and π₂ [n]
    of the same class, and λ = `weight` (a 0-dimensional tensor),

        individual     D₁ = MSE(z, z∘π₁) + 0.3 · MSE(r, p∘π₁)
        heterogeneous  D₂ = MSE(z, λ z∘π₁ + (1 − λ) z∘π₂) + 0.3 · MSE(r, λ p∘π₁ + (1 − λ) p∘π₂)
    """
    first, second = partners
    mixed_logits = mix(logits[first], logits[second], weight)
    mixed_projected = mix(projected[first], projected[second], weight)
    individual = _distance(logits, logits[first], features, projected[first])
    heterogeneous = _distance(logits, mixed_logits, features, mixed_projected)
    return mix(individual, heterogeneous, weight)


def _distance(logits: Tensor, logits_to: Tensor, features: Tensor, features_to: Tensor) -> Tensor:
    """Return MSE of the logits + 0.3 · MSE of the features."""
    return F.mse_loss(logits, logits_to) + FEATURE_SHARE * F.mse_loss(features, features_to)


MIXING_ALPHA = 0.5


@ALGORITHMS.register("selfreg")
class SelfReg(ERM):
    """Pull samples of one class together: L_E + min(L_E, 1) · [w D₁ + (1 − w) D₂].

    D₁ is the mean squared distance of a sample's logits, and (times 0.3) of its features, to those
    of a random sample of its class; D₂ is the distance to a mixture of two such samples, in
    proportions w and 1 − w with w ~ Beta(½, ½).  The partner's features pass through a projection
    first.  Partners are drawn from all domains; the factor min(L_E, 1) carries no gradient.  See
    `dissimilarity` for the formulas.

    DomainBed does not train the projection; `match_upstream` does the same.

    Paper: Kim et al. (2021), *SelfReg: Self-supervised Contrastive Regularization for Domain
    Generalization*.
    """

    family = "representation"
    paper = "Kim et al. (2021)"
    weighs_samples = True
    classes_only = "it pulls samples of one class together"

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """Whether to leave the projection untrained, as DomainBed does."""

        match_upstream: bool = hparam(False, help="as DomainBed: projection untrained")

    hparams: Hparams

    def setup(self) -> None:
        """Add the projection network."""
        self.projection = projection_network(self.num_features)
        if not self.hparams.match_upstream:
            projection_weights = list(self.projection.parameters())
            self.optimizers["main"].add_param_group({"params": projection_weights})

    def objective(self, batch: Batch) -> Losses:
        """Return the risk plus the scaled dissimilarities within classes."""
        features = self.features(batch).flatten(0, 1)
        labels = batch.y.flatten()
        logits = self.head(features)
        risk = batch.weighted(self.sample_loss.risk(logits, labels).view_as(batch.y)).mean()
        penalty = dissimilarity(
            logits,
            features,
            projected=self.projection(features),
            partners=(self._partners(labels), self._partners(labels)),
            weight=beta_weights(MIXING_ALPHA, 1, self.generator).to(logits).squeeze(),
        )
        scale = risk.detach().clamp(max=1)
        return Losses(risk + scale * penalty, {"risk": risk, "dissimilarity": penalty})

    def _partners(self, labels: Tensor) -> Tensor:
        """Return a random shuffle [n] of the batch within its classes."""
        order = torch.randperm(len(labels), generator=self.generator)
        return same_class_partners(labels, order.to(labels.device))


def projection_network(features: int) -> nn.Module:
    """Return the projection k → h → h → k with batch norm; h = 2k, or k if k = 2048."""
    hidden = features if features == 2048 else 2 * features
    return nn.Sequential(
        nn.Linear(features, hidden),
        nn.BatchNorm1d(hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.BatchNorm1d(hidden),
        nn.ReLU(),
        nn.Linear(hidden, features),
        nn.BatchNorm1d(features),
    )
