"""The pieces of a sweep: its data, and one job for every run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from shiftproof.core.space import Scalar
from shiftproof.data import DomainDataset
from shiftproof.data.base import Progress, silent
from shiftproof.data.load import DataRequest
from shiftproof.sweeps.results import VARIANT
from shiftproof.training.config import RunConfig
from shiftproof.training.features import freeze


@dataclass(frozen=True)
class Frozen:
    """The network whose features stand for the images."""

    backbone: str
    weights: str
    precision: str = "fp32"


@dataclass(frozen=True)
class SweepData:
    """One dataset of a sweep: what to load, under which name, and as whose features."""

    name: str
    request: DataRequest
    frozen: Frozen | None = None

    def load(self, trial_seed: int, progress: Progress = silent) -> DomainDataset:
        """Return the data of a trial."""
        dataset = self.request.load(trial_seed, progress)
        if self.frozen is not None:
            dataset = freeze(
                dataset,
                self.frozen.backbone,
                self.frozen.weights,
                precision=self.frozen.precision,
                progress=progress,
            )
        return replace(dataset, name=self.name)


@dataclass(frozen=True)
class Variant:
    """A row of a comparison: an algorithm, with some hyper-parameters in place of the preset's."""

    name: str
    algorithm: str
    hparams: Mapping[str, Scalar] = field(default_factory=dict)

    @classmethod
    def plain(cls, algorithm: str) -> Variant:
        """Return an algorithm as it is."""
        return cls(algorithm, algorithm)


@dataclass(frozen=True)
class Job:
    """One run of a sweep: its configuration, and its place in the protocol.

    ``variant`` is the row that it belongs to, which may be an algorithm's name or not.
    """

    data: SweepData
    config: RunConfig
    domains: tuple[str, ...]
    hparams_seed: int
    trial_seed: int
    variant: str

    @property
    def id(self) -> str:
        """A hash of the content: the same job has the same id, wherever it is planned."""
        return self.config.run_id

    @property
    def title(self) -> str:
        """What people call it."""
        held_out = "+".join(self.config.test_domains)
        return (
            f"{self.variant} on {self.data.name} without {held_out},"
            f" hparams {self.hparams_seed}, trial {self.trial_seed}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the job's place in the protocol, as written beside its run."""
        place = {
            "dataset": self.data.name,
            "algorithm": self.config.algorithm,
            "domains": list(self.domains),
            "test_domains": list(self.config.test_domains),
            "hparams_seed": self.hparams_seed,
            "trial_seed": self.trial_seed,
        }
        return place if self.variant == self.config.algorithm else place | {VARIANT: self.variant}
