"""Presets for the size of runs in a sweep: as published, or reduced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from shiftproof.core.errors import UnknownName
from shiftproof.core.space import Scalar, specs
from shiftproof.data import DATASETS
from shiftproof.data.load import DataRequest

PROTOCOL_STEPS = 5001


@dataclass(frozen=True)
class Preset:
    """The size of runs.

    ``options`` are passed to the datasets that declare them; ``backbones`` maps regimes to networks
    that replace the datasets' own.  Hyper-parameters that count steps are scaled by
    ``steps`` / 5001, those in ``largest`` are capped, and those in ``hparams`` are fixed.  Runs are
    evaluated ``evaluations`` times, or at the datasets' own interval if it is 0; ``interval``
    overrides both.
    """

    name: str
    steps: int
    evaluations: int
    options: Mapping[str, str] = field(default_factory=dict)
    backbones: Mapping[str, str] = field(default_factory=dict)
    largest: Mapping[str, int] = field(default_factory=dict)
    hparams: Mapping[str, Scalar] = field(default_factory=dict)
    holdout: float = 0.2
    freeze_images: bool = False
    augment_validation: bool = False
    interval: int | None = None

    def request(self, request: DataRequest) -> DataRequest:
        """Return the data request at this size."""
        if request.data not in DATASETS:
            return request
        declared = specs(DATASETS.get(request.data))
        options = {name: value for name, value in self.options.items() if name in declared}
        return replace(request, options={**options, **(request.options or {})})

    def eval_every(self, published: int) -> int:
        """Return the steps between evaluations; ``published`` is the dataset's own interval."""
        if self.interval is not None:
            return self.interval
        if self.evaluations == 0:
            return published
        return max(1, -(-self.steps // self.evaluations))

    def sized(self, name: str, value: Scalar, unit: str | None) -> Scalar:
        """Return the value of a hyper-parameter of the protocol at this size."""
        if unit == "steps" and isinstance(value, int):
            return round(value * self.steps / PROTOCOL_STEPS)
        return min(value, self.largest[name]) if name in self.largest else value


PRESETS = {
    preset.name: preset
    for preset in (
        # The published protocol, with the datasets' own networks.
        Preset("domainbed", steps=PROTOCOL_STEPS, evaluations=0, augment_validation=True),
        # Reduced size: small digits and a perceptron, frozen features for images.  A run takes
        # seconds, and gradient matching still helps on Colored MNIST.
        Preset(
            "lite",
            steps=1001,
            evaluations=10,
            options={"side": "14"},
            backbones={"small-image": "mlp"},
            largest={"batch_size": 64, "hidden": 128, "context_width": 8},
            freeze_images=True,
        ),
        # IRM's study of Colored MNIST, as in the paper's Table 1: full batches of two domains, and
        # no samples held out.  The scripts take 501 steps and score the weights before the last
        # step.  DomainBed would draw dropout, which the paper does not search over.
        Preset(
            "table1",
            steps=500,
            evaluations=50,
            hparams={"batch_size": 0, "single_logit": True, "dropout": 0.0},
            holdout=0.0,
        ),
    )
}


def preset_named(name: str) -> Preset:
    """Return a preset, or raise with the nearest names."""
    if name not in PRESETS:
        raise UnknownName("preset", name, PRESETS)
    return PRESETS[name]
