"""The interface of models: hyper-parameters, and a featurizer φ and a head ψ built from them.

Featurizer and head are separate because matching needs both: representations φ(x), and gradients
with respect to the parameters of ψ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

from torch import nn

from shiftproof.core.errors import InvalidValue
from shiftproof.core.space import Choice, hparam
from shiftproof.core.types import Task


def check_images(name: str, task: Task) -> None:
    """Raise unless samples are images."""
    if len(task.input_shape) != 3:
        raise InvalidValue(
            f"{name} takes images [channels, height, width], not {task.input_shape};"
            ' use `backbone="mlp"`'
        )


class Network(NamedTuple):
    """A featurizer [batch, *input] → [batch, k] and a head [batch, k] → [batch, logits]."""

    featurizer: nn.Module
    head: nn.Module


@dataclass(frozen=True)
class Model(ABC):
    """A kind of network; its fields are its hyper-parameters."""

    dropout: float = hparam(
        0.0, Choice((0.0, 0.1, 0.5)), within=(0, 0.99), help="dropout before the head"
    )
    nonlinear_head: bool = hparam(False, help="three-layer head instead of a linear one")
    single_logit: bool = hparam(False, help="one logit and the logistic loss for two classes")

    @abstractmethod
    def build(self, task: Task) -> Network:
        """Build the network, with initial weights from torch's global generator."""

    def build_head(self, features: int, task: Task) -> nn.Module:
        """Return ψ: linear, or k → k/2 → k/4 → logits with ReLU between (`nonlinear_head`)."""
        if self.single_logit and task.num_classes != 2:
            raise InvalidValue(
                f"`single_logit` needs two classes, but there are {task.num_classes}"
            )
        outputs = 1 if self.single_logit else task.num_outputs
        if not self.nonlinear_head:
            return nn.Linear(features, outputs)
        half, quarter = max(features // 2, 1), max(features // 4, 1)
        return nn.Sequential(
            nn.Linear(features, half),
            nn.ReLU(),
            nn.Linear(half, quarter),
            nn.ReLU(),
            nn.Linear(quarter, outputs),
        )
