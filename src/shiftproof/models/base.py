"""What a model is: its hyper-parameters, from which a featurizer φ and a head ψ are built.

The head is kept apart because matching needs both: representations φ(x), and gradients by ψ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

from torch import nn

from shiftproof.core.errors import InvalidValue
from shiftproof.core.registry import Registry
from shiftproof.core.space import Choice, hparam
from shiftproof.core.types import Task


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
    nonlinear_head: bool = hparam(False, help="three layers for a head, in place of a linear one")
    single_logit: bool = hparam(False, help="two classes by one logit under the logistic loss")

    @abstractmethod
    def build(self, task: Task) -> Network:
        """Build the network; starting weights come from torch's global generator."""

    def build_head(self, features: int, task: Task) -> nn.Module:
        """Return ψ: linear, or k → k/2 → k/4 → logits with ReLU between (``nonlinear_head``)."""
        if self.single_logit and task.num_classes != 2:
            raise InvalidValue(
                f"`single_logit` needs two classes, and there are {task.num_classes}"
            )
        outputs = 1 if self.single_logit else task.num_classes
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


class ModelRegistry(Registry[type[Model]]):
    """Our models by name; any other name is asked of timm, which is imported only then.

    Iterating lists ours alone: timm has a thousand more.
    """

    def get(self, name: str) -> type[Model]:
        """Return our model of this name, or timm's; raise with the nearest names of both."""
        if name in self:
            return super().get(name)
        from shiftproof.models.timm import timm_model

        return timm_model(self.full_name(name))

    def full_name(self, name: str) -> str:
        """Return the name that tells a model apart for good: timm's with its tag."""
        if name in self:
            return name
        from shiftproof.models.timm import full_name

        return full_name(name, ours=self)


MODELS = ModelRegistry("backbone", package="shiftproof.models")
