"""The discriminator of adversarial algorithms, a network that classifies domains or noise."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


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
