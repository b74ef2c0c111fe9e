"""A multi-layer perceptron: for tables, features, and the small digits of the IRM study."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from torch import nn

from shiftproof.core.space import Int, hparam
from shiftproof.core.types import Task
from shiftproof.models.base import Model, Network
from shiftproof.models.registry import MODELS


@MODELS.register("mlp")
@dataclass(frozen=True)
class MLP(Model):
    """Flatten → (Linear → ReLU) × depth → dropout; Xavier-uniform weights and zero biases.

    With `depth=2` and `single_logit`, it is the three-layer network of IRM's study on Colored
    MNIST (Arjovsky et al., 2019).
    """

    hidden: int = hparam(256, Int(6, 9, base=2), within=(1, 1e6), help="width of each layer")
    depth: int = hparam(
        2,
        # Features need few layers, but without any there is no representation to match.
        regimes={"features": (1, None)},
        within=(0, 100),
        help="number of hidden layers; 0 for the head alone",
    )

    def build(self, task: Task) -> Network:
        """Build the network."""
        widths = [math.prod(task.input_shape)] + [self.hidden] * self.depth
        layers: list[nn.Module] = [nn.Flatten()]
        for inputs, outputs in itertools.pairwise(widths):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        if self.dropout:
            layers.append(nn.Dropout(self.dropout))
        network = Network(nn.Sequential(*layers), self.build_head(widths[-1], task))
        for module in itertools.chain(network.featurizer.modules(), network.head.modules()):
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
        return network
