"""Image networks that start from weights learnt elsewhere: what torchvision's and timm's share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from shiftproof.errors import CheckpointError, InvalidValue, ShiftproofError
from shiftproof.models.base import Model, Network
from shiftproof.models.weights import PRETRAINED, reason
from shiftproof.space import hparam
from shiftproof.types import Task


class FrozenNorms(nn.Sequential):
    """Modules whose batch norms are in eval mode always, also after ``.train()``.

    Their statistics stay what they are; their affine parameters are trained.
    """

    def train(self, mode: bool = True) -> Self:
        """Set the mode of everything but the batch norms."""
        super().train(mode)
        for module in self.modules():
            if isinstance(module, _BatchNorm):
                module.eval()
        return self


@dataclass(frozen=True)
class PretrainedModel(Model):
    """A network without its last layer, all batch norms frozen → dropout.

    Under ``weights=random`` the frozen norms do nothing: that is for tests, not for results.
    """

    weights: str = hparam(
        PRETRAINED, help="starting weights: pretrained (downloaded), random, or a file"
    )

    # By which the library that brings the network knows it.
    name: ClassVar[str]

    @abstractmethod
    def network(self, channels: int) -> nn.Module:
        """Return the network with its starting weights: [batch, channels, h, w] → [batch, k]."""

    def build(self, task: Task) -> Network:
        """Build the network."""
        if len(task.input_shape) != 3:
            raise InvalidValue(
                f"{self.name} takes images [channels, height, width], not {task.input_shape};"
                " use --backbone mlp"
            )
        layers = [self.network(task.input_shape[0])]
        if self.dropout:
            layers.append(nn.Dropout(self.dropout))
        featurizer = FrozenNorms(*layers).eval()
        # Which images fit, only the network itself can tell, and only by taking one.
        try:
            with torch.no_grad():
                (features,) = featurizer(torch.zeros(1, *task.input_shape))[0].shape
        except Exception as error:
            raise InvalidValue(
                f"{self.name} cannot take images of shape {task.input_shape} ({reason(error)})"
            ) from error
        return Network(featurizer.train(), self.build_head(features, task))


@contextmanager
def downloading(name: str) -> Iterator[None]:
    """Turn whatever a failed download raises into one line that says how to go on without."""
    try:
        yield
    except ShiftproofError:
        raise
    except Exception as error:  # each library and each proxy has errors of its own
        raise CheckpointError(
            f"the pretrained weights of {name} cannot be downloaded; give a file by --weights PATH,"
            f" or start from --weights random ({reason(error)})"
        ) from error
