"""ERM: empirical risk minimisation, and the bases of algorithms that add a penalty to it."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from torch import Tensor

from shiftproof.core.space import Float, Int
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms.base import ALGORITHMS, Algorithm, Losses
from shiftproof.learners.algorithms.hparams import steps, weight
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


class PenalisedRisk(ERM):
    """Minimise L_E + λ P, with L_E the mean risk and P a penalty on the outputs of a batch.

    A subclass declares `penalty_weight` (λ) among its hyper-parameters and defines `penalty`.
    """

    weighs_samples = True

    def objective(self, batch: Batch) -> Losses:
        """Return L_E + λ P."""
        outputs = self.outputs(batch)
        risk, penalty = outputs.risks.mean(), self.penalty(outputs)
        # With weight 0, the penalty is only recorded; its gradient is not computed.
        total = risk + self.weight * penalty if self.weight else risk
        return Losses(total, {"risk": risk, "penalty": penalty})

    @property
    def weight(self) -> float:
        """λ at this step."""
        weight: float = self.hparams.penalty_weight  # type: ignore[attr-defined]
        return weight

    @abstractmethod
    def penalty(self, outputs: Outputs) -> Tensor:
        """Return P, a scalar."""


class AnnealedPenalty(PenalisedRisk):
    """A penalty that takes effect at step `anneal_steps`, where Adam restarts.

    Until then its weight is `early_weight`.
    """

    early_weight: ClassVar[float] = 1.0
    restarts_at: ClassVar[tuple[str, ...]] = ("anneal_steps",)

    @dataclass(frozen=True)
    class Hparams(PenalisedRisk.Hparams):
        """λ and when it takes effect."""

        penalty_weight: float = weight(1e2, Float(-1, 5, base=10), help="λ, weight of the penalty")
        anneal_steps: int = steps(500, Int(0, 4, base=10), help="first steps, with λ = 1")

    hparams: Hparams

    @property
    def weight(self) -> float:
        """λ at this step."""
        h = self.hparams
        return h.penalty_weight if self.updates >= h.anneal_steps else self.early_weight
