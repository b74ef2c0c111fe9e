"""Any image network of timm (Wightman, 2019), by its timm name.

Our own names come first; any other name is looked up in timm, with or without the tag that says how
the weights were trained.  So timm's `resnet50` needs its full name, `resnet50.a1_in1k`.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import nn

from shiftproof.core.errors import UnknownName
from shiftproof.models.pretrained import IMAGENET, PixelStatistics, PretrainedModel, downloading
from shiftproof.models.weights import CLASSIFIERS, load_weights, read_weights
from shiftproof.models.weights_name import PRETRAINED, names_a_file


@dataclass(frozen=True)
class TimmModel(PretrainedModel):
    """A network of timm without its classifier.

    `weights="pretrained"` means the weights that timm downloads for the network's tag.  A file must
    use timm's names.

    For images of c ≠ 3 channels, timm repeats the channels of the first convolution and scales them
    by 3/c (for c = 1 it sums them).
    """

    def network(self, channels: int) -> nn.Module:
        """Return the network with its initial weights."""
        import timm

        # The classifier is removed after loading: without it, timm does not load strictly.
        if self.weights == PRETRAINED:
            with downloading(self.name):
                network = timm.create_model(self.name, pretrained=True, in_chans=channels)
        else:
            network = timm.create_model(self.name, in_chans=channels)
        network.reset_classifier(0)  # type: ignore[operator]
        if names_a_file(self.weights):
            self._load_file(network, channels)
        return network

    def pixel_statistics(self) -> PixelStatistics:
        """Return timm's statistics for the network, or ImageNet's if it has none."""
        import timm

        published = timm.get_pretrained_cfg(self.name)
        if published is None:
            return IMAGENET
        return PixelStatistics(tuple(published.mean), tuple(published.std))

    def _load_file(self, network: nn.Module, channels: int) -> None:
        from timm.models import adapt_input_conv

        published: dict[str, Any] = network.pretrained_cfg  # type: ignore[assignment]
        tensors = read_weights(self.weights)
        for layer in _names(published.get("first_conv")):
            weight = tensors.get(f"{layer}.weight")
            # Weights of another architecture stay unchanged: `load_weights` then raises an error.
            if channels != 3 and weight is not None and weight.ndim == 4 and weight.shape[1] == 3:
                tensors[f"{layer}.weight"] = adapt_input_conv(channels, weight)
        load_weights(
            network,
            tensors,
            source=self.weights,
            architecture=self.name,
            classifiers=[*CLASSIFIERS, *_names(published.get("classifier"))],
        )


def full_name(name: str, ours: Iterable[str] = ()) -> str:
    """Return timm's name with its tag, or raise with the nearest names of `ours` and timm's.

    timm sometimes changes the default tag of a name; a full name keeps its meaning.

    >>> full_name("tf_efficientnet_lite0")
    'tf_efficientnet_lite0.in1k'
    """
    import timm

    tagged = timm.list_pretrained()
    names = timm.list_models()
    if name in tagged:
        return name
    if name not in names:
        close = difflib.get_close_matches(name, [*names, *tagged], n=2)
        raise UnknownName("backbone", name, [*ours, *close, "any of timm.list_models()"])
    published = timm.get_pretrained_cfg(name)
    with_tag = f"{name}.{published.tag}" if published else name
    return with_tag if with_tag in tagged else name


@functools.cache
def timm_model(name: str) -> type[TimmModel]:
    """Return the model with a full name."""

    class Named(TimmModel):
        __doc__ = TimmModel.__doc__

    Named.name = name
    return Named


def _names(value: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the names that timm gives as a string, a sequence or None."""
    return (value,) if isinstance(value, str) else tuple(value or ())
