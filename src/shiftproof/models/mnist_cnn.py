"""The convolutional network of DomainBed's MNIST datasets."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from shiftproof.core.types import Task
from shiftproof.models.base import Model, Network, check_images
from shiftproof.models.registry import MODELS

FEATURES = 128


@MODELS.register("mnist-cnn")
@dataclass(frozen=True)
class MnistCNN(Model):
    """Four 3×3 convolutions (64, 128 at stride 2, 128, 128), then global average pooling.

    Each convolution is followed by ReLU and GroupNorm of 8 groups; 128 features.
    """

    def build(self, task: Task) -> Network:
        """Build the network."""
        check_images("mnist-cnn", task)

        def block(inputs: int, outputs: int, stride: int = 1) -> list[nn.Module]:
            convolution = nn.Conv2d(inputs, outputs, kernel_size=3, stride=stride, padding=1)
            return [convolution, nn.ReLU(), nn.GroupNorm(8, outputs)]

        layers = [
            *block(task.input_shape[0], 64),
            *block(64, FEATURES, stride=2),
            *block(FEATURES, FEATURES),
            *block(FEATURES, FEATURES),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        ]
        if self.dropout:
            layers.append(nn.Dropout(self.dropout))
        return Network(nn.Sequential(*layers), self.build_head(FEATURES, task))
