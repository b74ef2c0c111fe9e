"""The shape that many algorithms share: the mean risk plus a weighted penalty."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from torch import Tensor

from shiftproof.core.types import Batch
from shiftproof.learners.algorithms.base import Losses
from shiftproof.learners.algorithms.erm import ERM, Outputs


class PenalisedRisk(ERM):
    """Minimise L_E + λ P, with L_E the mean risk and P a penalty on the outputs of a batch.

    A subclass declares `penalty_weight` (λ) among its hyper-parameters and defines `penalty`.
    """

    def objective(self, batch: Batch) -> Losses:
        """Return L_E + λ P."""
        outputs = self.outputs(batch)
        risk, penalty = outputs.risks.mean(), self.penalty(outputs)
        # Without a weight the penalty is recorded only; its gradient is not computed.
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

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.optimizer_restarts |= {self.anneal_steps}

    @property
    def anneal_steps(self) -> int:
        """The step at which the penalty takes effect."""
        steps: int = self.hparams.anneal_steps  # type: ignore[attr-defined]
        return steps

    @property
    def weight(self) -> float:
        """λ at this step."""
        return super().weight if self.updates >= self.anneal_steps else self.early_weight
