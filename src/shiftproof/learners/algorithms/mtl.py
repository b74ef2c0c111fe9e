"""MTL: marginal transfer learning, a predictor with an embedding of the domain as input."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from shiftproof.core.errors import InvalidValue
from shiftproof.core.space import Choice, hparam
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms import ALGORITHMS, ERM, Losses
from shiftproof.penalties.formulas import MovingAverage


@ALGORITHMS.register("mtl")
class MTL(ERM):
    """Give the head an embedding eⁱ of the domain: Σᵢ (1/b) Σⱼ ℓ(ψ([φ(xⁱⱼ), eⁱ]), yⁱⱼ).

    The embedding [k] of domain i is a moving average of its mean features,

        eⁱ ← α (1/b) Σⱼ φ(xⁱⱼ) + (1 − α) eⁱ,   e⁰ = 0,

    of which only the newest term carries a gradient.  In prediction, a batch is treated as one
    unknown domain whose embedding is its mean features, so a prediction depends on the other
    samples of its batch.

    The head built for k features is replaced by one with 2k inputs.  The loss is a sum over
    domains, as published.

    DomainBed overwrites the embedding with standard normal noise; `match_upstream` does the same
    (predictions use the same noise each time, so that they are reproducible).

    Paper: Blanchard et al. (2021), *Domain Generalization by Marginal Transfer Learning*.
    """

    family = "meta"
    paper = "Blanchard et al. (2021)"
    predicts_by_batch = True
    weighs_samples = True

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """α, and whether to use DomainBed's noise."""

        ema: float = hparam(
            0.99,
            Choice((0.5, 0.9, 0.99, 1.0)),
            within=(1e-6, 1),
            help="α, weight of the newest batch in a domain's embedding",
        )
        match_upstream: bool = hparam(False, help="as DomainBed: noise in place of the embedding")

    hparams: Hparams

    def setup(self) -> None:
        """Double the input of the head."""
        self.head = with_doubled_input(self.head)
        self.reset_optimizer()
        self.embeddings = MovingAverage(1 - self.hparams.ema)

    def objective(self, batch: Batch) -> Losses:
        """Return the sum of the domains' risks, and update their embeddings."""
        features = self.features(batch)
        embeddings = self.embeddings(features.mean(dim=1)).unsqueeze(1)
        logits = self.head(self._joined(features, embeddings, self.generator))
        risks = batch.weighted(self.sample_loss.risk(logits, batch.y))
        return Losses(risks.mean(dim=1).sum(), {})

    def predict(self, x: Tensor) -> Tensor:
        """Return the logits [batch, c] of x [batch, …], treated as one unknown domain."""
        features = self.featurizer(x)
        noise = torch.Generator().manual_seed(0)
        logits: Tensor = self.head(self._joined(features, features.mean(dim=0), noise))
        return logits

    def _joined(self, features: Tensor, embedding: Tensor, noise: torch.Generator) -> Tensor:
        """Append the domain's embedding to features [..., k]: [..., 2k]."""
        if self.hparams.match_upstream:
            embedding = torch.randn(features.shape, generator=noise, dtype=features.dtype)
        return torch.cat([features, embedding.to(features.device).expand_as(features)], dim=-1)


def with_doubled_input(head: nn.Module) -> nn.Module:
    """Return a head with a new first layer for twice as many features."""
    if isinstance(head, nn.Linear):
        bias = head.bias is not None
        return nn.Linear(2 * head.in_features, head.out_features, bias).to(head.weight)
    if isinstance(head, nn.Sequential) and len(head) and isinstance(head[0], nn.Linear):
        return nn.Sequential(with_doubled_input(head[0]), *head[1:])
    raise InvalidValue(f"mtl needs a head whose first layer is linear, not {head}")
