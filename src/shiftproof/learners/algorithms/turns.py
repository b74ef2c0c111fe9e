"""Adversarial training that alternates between a network and a domain discriminator."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

from torch import Tensor, nn

from shiftproof.core.types import Batch
from shiftproof.learners.algorithms.adam import Adam
from shiftproof.learners.algorithms.base import Losses
from shiftproof.learners.algorithms.erm import ERM


class TakesTurns(ERM):
    """Alternate s updates of a discriminator with one update of the network.

    With updates t counted from 1, the network is updated if t mod (s + 1) = s.

    A subclass declares `discriminator_steps` (s) and `adam_beta1` among its hyper-parameters, has
    an optimiser `discriminator`, and defines the losses: `objective` and `discriminator_objective`.
    """

    @abstractmethod
    def discriminator_objective(self, batch: Batch) -> Losses:
        """Return the loss of the discriminator, without gradient to the featurizer."""

    def update(self, batch: Batch) -> dict[str, Tensor]:
        """Update the discriminator or the network, in turns."""
        steps = self.hparams.discriminator_steps  # type: ignore[attr-defined]
        if (self.updates + 1) % (steps + 1) < steps:
            optimizer, losses = "discriminator", self.discriminator_objective(batch)
        else:
            optimizer, losses = "main", self.objective(batch)
        self.descend(losses.total, optimizer)
        self.updates += 1
        return losses.measured()

    def reset_optimizer(self) -> None:
        """Restart the network's Adam."""
        network = [*self.featurizer.parameters(), *self.head.parameters()]
        self.optimizers["main"] = self.adam(network, self.hparams.lr, self.hparams.weight_decay)

    def adam(self, weights: Iterable[nn.Parameter], lr: float, decay: float) -> Adam:
        """Return Adam with β = (β₁, 0.9)."""
        betas = (self.hparams.adam_beta1, 0.9)  # type: ignore[attr-defined]
        return Adam(weights, lr, decay, betas)
