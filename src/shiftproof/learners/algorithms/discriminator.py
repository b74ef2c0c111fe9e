"""Adversarial training against a discriminator, a network that classifies domains or noise."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftproof.core.types import Batch
from shiftproof.learners.algorithms import ERM, Adam, Losses


class Discriminator(nn.Module):
    """A multilayer perceptron of `depth` linear layers with `width` hidden units and ReLU.

    `leak` is the slope of the ReLU below zero.  Dropout follows each ReLU.  Initial weights and
    biases are U(−1/√n, 1/√n) for a layer of n inputs, as in torch, but drawn from `generator`.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        width: int,
        depth: int,
        dropout: float,
        generator: torch.Generator,
        leak: float = 0.0,
    ) -> None:
        super().__init__()
        self.dropout = dropout
        self.leak = leak
        self.input = _linear(inputs, width, generator)
        self.hiddens = nn.ModuleList(_linear(width, width, generator) for _ in range(depth - 2))
        self.output = _linear(width, outputs, generator)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of x [..., inputs]: [..., outputs]."""
        for layer in (self.input, *self.hiddens):
            x = F.leaky_relu(layer(x), self.leak) if self.leak else F.relu(layer(x))
            x = F.dropout(x, self.dropout, self.training)
        logits: Tensor = self.output(x)
        return logits


def _linear(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    # Created without initial weights, so that torch's global generator does not advance.
    layer = nn.Linear(inputs, outputs, device="meta").to_empty(device="cpu")
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, -1 / math.sqrt(inputs), 1 / math.sqrt(inputs), generator)
    return layer


class TakesTurns(ERM):
    """Alternate s updates of a discriminator of domains with one update of the network.

    With updates t counted from 1, the network is updated if t mod (s + 1) = s.

    A subclass declares `discriminator_steps` (s), `adam_beta1` and the discriminator's `width`,
    `depth` and `dropout` among its hyper-parameters, calls `add_discriminator`, and defines the
    losses: `objective` and `discriminator_objective`.
    """

    @abstractmethod
    def discriminator_objective(self, batch: Batch) -> Losses:
        """Return the loss of the discriminator, without gradient to the featurizer."""

    def add_discriminator(self, lr: float, weight_decay: float) -> None:
        """Add a discriminator of domains, and its Adam."""
        h: Any = self.hparams
        self.discriminator = Discriminator(
            self.num_features,
            self.task.num_domains,
            width=h.discriminator_width,
            depth=h.discriminator_depth,
            dropout=h.discriminator_dropout,
            generator=self.generator,
        )
        weights = self.discriminator.parameters()
        self.optimizers["discriminator"] = self.adam(weights, lr, weight_decay)

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

    def adam(self, weights: Iterable[nn.Parameter], lr: float, weight_decay: float) -> Adam:
        """Return Adam with β = (β₁, 0.9)."""
        betas = (self.hparams.adam_beta1, 0.9)  # type: ignore[attr-defined]
        return Adam(weights, lr, weight_decay, betas)
