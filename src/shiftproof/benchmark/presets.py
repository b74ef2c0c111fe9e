"""How large the runs of a sweep are: the published protocol, or ours for a laptop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from shiftproof.data import DATASETS
from shiftproof.data.requests import DataRequest
from shiftproof.errors import UnknownName
from shiftproof.space import specs

PROTOCOL_STEPS = 5001


@dataclass(frozen=True)
class Preset:
    """Sizes of runs.

    ``options`` are given to the datasets that declare them; ``backbones`` are the networks by
    regime, in place of the datasets' own.  Hyper-parameters that count steps are scaled by
    ``steps`` / 5001.
    """

    name: str
    steps: int
    evaluations: int
    options: Mapping[str, str] = field(default_factory=dict)
    backbones: Mapping[str, str] = field(default_factory=dict)
    freeze_images: bool = False
    augment_validation: bool = False

    def request(self, request: DataRequest) -> DataRequest:
        """Return the request for the data at this size."""
        if request.data not in DATASETS:
            return request
        declared = specs(DATASETS.get(request.data))
        own = {name: value for name, value in self.options.items() if name in declared}
        return replace(request, options={**own, **request.options})

    def eval_every(self, published: int) -> int:
        """Return the steps between evaluations: as published at full length, else ``steps``/n."""
        if self.evaluations == 0:
            return published
        return max(1, -(-self.steps // self.evaluations))

    def scaled(self, count: int) -> int:
        """Return a number of steps of the protocol as one of this size."""
        return round(count * self.steps / PROTOCOL_STEPS)


PRESETS = {
    preset.name: preset
    for preset in (
        # The published protocol, with the datasets' own networks.
        Preset(
            "domainbed",
            steps=PROTOCOL_STEPS,
            evaluations=0,
            augment_validation=True,
        ),
        # The same at a laptop's size: small digits and a perceptron, frozen features for images.
        Preset(
            "lite",
            steps=1501,
            evaluations=10,
            options={"side": "14"},
            backbones={"small-image": "mlp"},
            freeze_images=True,
        ),
    )
}


def preset_named(name: str) -> Preset:
    """Return a preset, or raise with the nearest names."""
    if name not in PRESETS:
        raise UnknownName("preset", name, PRESETS)
    return PRESETS[name]
