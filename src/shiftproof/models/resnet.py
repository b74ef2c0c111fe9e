"""The residual networks of torchvision, as DomainBed uses them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from shiftproof.models.pretrained import PretrainedModel, downloading
from shiftproof.models.registry import MODELS
from shiftproof.models.weights import load_weights, read_weights
from shiftproof.models.weights_name import PRETRAINED, names_a_file


class ResNet(PretrainedModel):
    """A residual network of torchvision (He et al., 2016) without its last layer.

    `weights="pretrained"` means torchvision's IMAGENET1K_V1, as in the 2020 protocol.  A file must
    use torchvision's names.

    For images of c ≠ 3 channels, channel i of the first convolution is initialised with channel
    i mod 3 of the weights, as in DomainBed.
    """

    def network(self, channels: int) -> nn.Module:
        """Return the network with its initial weights."""
        from torchvision import models

        network: nn.Module = models.get_model(self.name)
        network.fc = nn.Identity()
        if self.weights == PRETRAINED:
            published = models.get_model_weights(self.name)["IMAGENET1K_V1"]
            with downloading(self.name):
                tensors = published.get_state_dict(check_hash=True, weights_only=True)
            load_weights(network, tensors, source=published.url, architecture=self.name)
        elif names_a_file(self.weights):
            tensors = read_weights(self.weights)
            load_weights(network, tensors, source=self.weights, architecture=self.name)
        if channels != 3:
            network.conv1 = _first_convolution(network.get_parameter("conv1.weight"), channels)
        return network


@MODELS.register("resnet18")
@dataclass(frozen=True)
class ResNet18(ResNet):
    """ResNet-18 of torchvision; 512 features."""

    name = "resnet18"


@MODELS.register("resnet50")
@dataclass(frozen=True)
class ResNet50(ResNet):
    """ResNet-50 of torchvision, the protocol's network for photographs; 2048 features."""

    name = "resnet50"


def _first_convolution(weight: Tensor, channels: int) -> nn.Conv2d:
    """Return a convolution with `channels` input channels that reuses the `weight` for three."""
    convolution = nn.Conv2d(channels, len(weight), 7, stride=2, padding=3, bias=False)
    with torch.no_grad():
        convolution.weight.copy_(weight[:, torch.arange(channels) % 3])
    return convolution
