"""The parts of a sweep: its data, the variants to compare, and one job per run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from shiftproof.core.errors import InvalidValue
from shiftproof.core.space import Scalar, specs
from shiftproof.data import DATASETS, DomainDataset
from shiftproof.data.base import Progress, silent
from shiftproof.data.load import DataRequest
from shiftproof.data.settings import DataSettings
from shiftproof.learners.algorithms import ALGORITHMS
from shiftproof.models import MODELS
from shiftproof.sweeps.presets import Preset
from shiftproof.sweeps.results import RunKey, positions
from shiftproof.sweeps.stored_run import VARIANT
from shiftproof.training.config import RunConfig
from shiftproof.training.features import freeze


@dataclass(frozen=True)
class Frozen:
    """The frozen network whose features replace the images."""

    backbone: str
    weights: str
    precision: str = "fp32"


@dataclass(frozen=True)
class SweepData:
    """A dataset of a sweep: its name, what to load, and the network that computes features."""

    name: str
    request: DataRequest
    frozen: Frozen | None = None

    def load(self, trial_seed: int, progress: Progress = silent) -> DomainDataset:
        """Return the data of a trial."""
        dataset = self.request.load(trial_seed, progress)
        if self.frozen is not None:
            dataset = freeze(dataset, **vars(self.frozen), progress=progress)
        return replace(dataset, name=self.name)


def sweep_data(
    names: Sequence[str], preset: Preset, frozen: Frozen, settings: DataSettings | None = None
) -> list[SweepData]:
    """Return registered datasets, folders of images and tables at the size of a preset.

    A preset may replace images by features.  Columns are those of tables: other data beside a table
    ignores them, and without a table they are refused on loading.
    """
    settings = settings or DataSettings()
    files = [name not in DATASETS and not Path(name).expanduser().is_dir() for name in names]
    sets = []
    for data, is_file in zip(names, files, strict=True):
        path = Path(data).expanduser()
        if data in DATASETS:
            name = data
            images = DATASETS.get(data).card.regime in ("large-image", "huge-image")
        else:
            name, images = path.absolute().name, path.is_dir()
        columns = settings.given(DataSettings) if is_file or not any(files) else {}
        request = preset.request(
            DataRequest(data, **{**columns, "options": settings.all_options()})
        )
        sets.append(SweepData(name, request, frozen if images and preset.freeze_images else None))
    return sets


@dataclass(frozen=True)
class Variant:
    """A row of a comparison: an algorithm, with some hyper-parameters fixed."""

    name: str
    algorithm: str
    hparams: Mapping[str, Scalar] = field(default_factory=dict)

    @classmethod
    def plain(cls, algorithm: str) -> Variant:
        """Return an algorithm without fixed hyper-parameters."""
        return cls(algorithm, algorithm)


@dataclass(frozen=True)
class Job:
    """One run of a sweep: its configuration, and its place in the protocol.

    ``variant`` is the name of its row.
    """

    data: SweepData
    config: RunConfig
    domains: tuple[str, ...]
    hparams_seed: int
    trial_seed: int
    variant: str

    @property
    def id(self) -> str:
        """A hash of the configuration: equal jobs have equal ids, wherever they are planned."""
        return self.config.run_id

    @property
    def key(self) -> RunKey:
        """The key that identifies the run within its sweep."""
        tests = positions(self.config.test_domains, self.domains, self.data.name)
        return RunKey(self.data.name, self.variant, tests, self.hparams_seed, self.trial_seed)

    @property
    def title(self) -> str:
        """The name shown to users."""
        held_out = "+".join(self.config.test_domains)
        return (
            f"{self.variant} on {self.data.name} without {held_out},"
            f" hparams {self.hparams_seed}, trial {self.trial_seed}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the job's place in the protocol, as written to ``job.json``."""
        stored: dict[str, Any] = {
            "dataset": self.data.name,
            "algorithm": self.config.algorithm,
            "domains": list(self.domains),
            "test_domains": list(self.config.test_domains),
            "hparams_seed": self.hparams_seed,
            "trial_seed": self.trial_seed,
        }
        return stored if self.variant == self.config.algorithm else stored | {VARIANT: self.variant}


class DatasetCache:
    """Caches the data of the last job, which the next one often needs again."""

    def __init__(self) -> None:
        self._last: tuple[object, DomainDataset] | None = None

    def keep(self, data: SweepData, trial_seed: int, dataset: DomainDataset) -> None:
        """Store loaded data in the cache."""
        self._last = (data, trial_seed), dataset

    def get(self, job: Job) -> DomainDataset:
        """Return the data of a job."""
        if self._last is not None and self._last[0] == (job.data, job.trial_seed):
            return self._last[1]
        self._last = None  # release it first: never two datasets in memory
        dataset = job.data.load(job.trial_seed)
        self.keep(job.data, job.trial_seed, dataset)
        return dataset


def algorithm_names(asked: str | Sequence[str]) -> list[str]:
    """Return the algorithms to compare; ``all`` means those that train on minibatches."""
    if asked == "all":
        return [name for name in ALGORITHMS if not ALGORITHMS.get(name).full_batches]
    names = [asked] if isinstance(asked, str) else list(asked)
    for name in names:
        ALGORITHMS.get(name)
    if len(set(names)) < len(names):
        raise InvalidValue(f"`algorithms` has duplicates: {','.join(names)}")
    return names


def variants_of(algorithms: Sequence[str], fixed: Mapping[str, object]) -> list[Variant]:
    """Return a row for each algorithm, named after the fixed hyper-parameters.

    Equal values give equal names: 1e1 and 10 are both 10.0.  The plan, which knows the networks,
    rejects unknown names.
    """
    if not fixed:
        return [Variant.plain(name) for name in algorithms]
    of_networks = {name: spec for _, model in MODELS.items() for name, spec in specs(model).items()}
    variants = []
    for algorithm in algorithms:
        known = of_networks | specs(ALGORITHMS.get(algorithm).Hparams)
        values: dict[str, Scalar] = {
            name: known[name].parse(value) if name in known else str(value)
            for name, value in sorted(fixed.items())
        }
        fixed_values = ",".join(f"{name}={value}" for name, value in values.items())
        variants.append(Variant(f"{algorithm}[{fixed_values}]", algorithm, values))
    return variants
