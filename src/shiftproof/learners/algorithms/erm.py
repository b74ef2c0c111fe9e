"""ERM: empirical risk minimisation, the baseline, and the forward pass that others build on."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from torch import Tensor

from shiftproof.core.types import Batch
from shiftproof.learners.algorithms.base import ALGORITHMS, Algorithm, Losses
from shiftproof.learners.base import Family


class Outputs(NamedTuple):
    """The network's outputs for a batch, from which losses and penalties are computed."""

    representations: Tensor  # R = φ(x) [domains, batch, k]
    logits: Tensor  # ψ(R) [domains, batch, c]
    labels: Tensor  # [domains, batch]
    losses: Tensor  # ℓ [domains, batch], times the sample weights
    risks: Tensor  # Lᵢ [domains], the mean loss in each domain


@ALGORITHMS.register("erm")
class ERM(Algorithm):
    """Minimise the mean risk over all domains: L_E = (1/m) Σᵢ (1/b) Σⱼ ℓ(ψ(φ(xⁱⱼ)), yⁱⱼ).

    Paper: Vapnik (1998), *Statistical Learning Theory*.
    """

    family: ClassVar[Family] = "baseline"
    paper = "Vapnik (1998)"
    weighs_samples = True

    def objective(self, batch: Batch) -> Losses:
        """Return L_E."""
        return Losses(self.outputs(batch).losses.mean(), {})

    def outputs(self, batch: Batch) -> Outputs:
        """Pass a batch through the network once."""
        representations = self.features(batch)
        logits = self.head(representations)
        losses = batch.weighted(self.sample_loss.risk(logits, batch.y))
        return Outputs(representations, logits, batch.y, losses, losses.mean(dim=1))
