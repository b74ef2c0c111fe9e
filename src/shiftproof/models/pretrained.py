"""Image networks with pretrained weights: the code shared by torchvision and timm models."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from shiftproof.core.errors import CheckpointError, InvalidValue, ShiftproofError
from shiftproof.core.space import hparam
from shiftproof.core.types import Task
from shiftproof.models.base import Model, Network, check_images
from shiftproof.models.weights import reason
from shiftproof.models.weights_name import PRETRAINED


class PixelStatistics(NamedTuple):
    """Mean and standard deviation of each channel of the images used for pretraining."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


IMAGENET = PixelStatistics((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


class FrozenNorms(nn.Sequential):
    """Modules whose batch norms always stay in eval mode, even after `.train()`.

    Their statistics do not change; their affine parameters are trained.
    """

    def train(self, mode: bool = True) -> Self:
        """Set the mode of all modules except the batch norms."""
        super().train(mode)
        for module in self.modules():
            if isinstance(module, _BatchNorm):
                module.eval()
        return self


class Normalise(nn.Module):
    """(x − mean) / std by channel: from images in [0, 1] to the inputs that the weights expect.

    It has no state: mean and std belong to the architecture.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, statistics: PixelStatistics) -> None:
        super().__init__()
        for name, values in statistics._asdict().items():
            self.register_buffer(name, torch.tensor(values).view(-1, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise images [batch, 3, h, w]."""
        return (x - self.mean) / self.std


@dataclass(frozen=True)
class PretrainedModel(Model):
    """Normalisation → a network without its last layer, with frozen batch norms → dropout.

    Images of three channels, in [0, 1], are normalised as in pretraining; others are not
    normalised.

    With `weights="random"` the frozen norms do nothing: use this for tests, not for results.
    """

    weights: str = hparam(
        PRETRAINED, help="initial weights: pretrained (downloaded), random, or a file"
    )

    # The name in torchvision or timm.
    name: ClassVar[str]

    @abstractmethod
    def network(self, channels: int) -> nn.Module:
        """Return the network with its initial weights: [batch, channels, h, w] → [batch, k]."""

    def pixel_statistics(self) -> PixelStatistics:
        """Return the statistics for normalising images of three channels."""
        return IMAGENET

    def build(self, task: Task) -> Network:
        """Build the network."""
        check_images(self.name, task)
        channels = task.input_shape[0]
        layers: list[nn.Module] = [Normalise(self.pixel_statistics())] if channels == 3 else []
        layers.append(self.network(channels))
        if self.dropout:
            layers.append(nn.Dropout(self.dropout))
        featurizer = FrozenNorms(*layers).eval()
        # Only a forward pass shows which image sizes the network accepts.
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
    """Turn a failed download into a one-line error that says what to do instead."""
    try:
        yield
    except ShiftproofError:
        raise
    except Exception as error:  # libraries and proxies raise errors of many kinds
        raise CheckpointError(
            f"the pretrained weights of {name} cannot be downloaded ({reason(error)}); give a file"
            ' as `weights`, or start from `weights="random"`'
        ) from error
