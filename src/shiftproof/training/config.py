"""The configuration of a run: two runs with equal configurations have equal records."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from shiftproof.core.errors import InvalidValue
from shiftproof.core.json_values import from_stored, stored_fields
from shiftproof.core.space import Regime, Scalar, resolve, specs
from shiftproof.core.standardize import NONE, adaptation_title
from shiftproof.core.types import CROSS_ENTROPY, UNWEIGHTED, Task
from shiftproof.data import DomainDataset
from shiftproof.data.splits import Split, split_domain
from shiftproof.learners.base import ALGORITHMS
from shiftproof.models.registry import MODELS
from shiftproof.models.weights_name import content_hash
from shiftproof.training.sample_weights import training_weights, without_weightless

if TYPE_CHECKING:
    from shiftproof.models.base import Model

# The backbone of an algorithm that is fitted at once.
NO_NETWORK = ""


@dataclass(frozen=True)
class RunConfig:
    """All that determines a run: the data by its fingerprint, everything else by value.

    `hparams` holds the hyper-parameters of the algorithm and the backbone.  `data_seed` determines
    generated data and splits; `seed` determines initial weights, batches and noise.

    `extractor` names the network that computed the features, if `backbone` is trained on features
    (see `training.features`).  With `augment_validation`, the training domains are evaluated on
    random views, as in the original protocol.  A `private` run leaves information on single
    training samples out of its model (see `TrainedModel.without_training_data`).  `standardize`
    says how rows are standardised within their domain (see `data.within_domain`); the results are
    then those of adaptation.  `loss` names the per-sample loss, and so determines whether classes
    or numbers are predicted.  `class_weight` says how classes are weighted
    (`training.sample_weights`).

    If `weights` is a file, `hparams` holds the hash of its content.  `weights_file` is its path on
    this machine and not part of the run: it is not compared, written or included in the id.
    Neither is `estimator`, the scikit-learn estimator to train, which `hparams` identifies.
    """

    dataset: str
    fingerprint: str
    algorithm: str
    backbone: str
    hparams: Mapping[str, Scalar]
    test_domains: tuple[str, ...]
    steps: int
    eval_every: int
    evaluate: tuple[str, ...]
    holdout: float
    data_seed: int
    seed: int
    device: str
    precision: str
    average: str = "none"
    extractor: Mapping[str, str] = field(default_factory=dict)
    augment_validation: bool = False
    private: bool = False
    standardize: str = NONE
    loss: str = CROSS_ENTROPY
    class_weight: str = UNWEIGHTED
    weights_file: str = field(default="", compare=False)
    estimator: Any = field(default=None, compare=False, repr=False)

    @property
    def title(self) -> str:
        """The name of the run's results: its algorithm, and how it adapts to a domain."""
        return adaptation_title(self.algorithm, self.standardize)

    @property
    def run_id(self) -> str:
        """A hash of the configuration."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """Return the configuration as JSON values, without the fields at their defaults."""
        return stored_fields(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RunConfig:
        """Return the configuration that `to_json` wrote; raise `ValueError` for anything else."""
        return from_stored(cls, value, "config")

    def evaluates_after(self, step: int) -> bool:
        """Return whether the run is evaluated after this update: 1, 1 + every, …, and the last."""
        every = self.eval_every
        return step == self.steps or (every > 0 and (step - 1) % every == 0)

    def task(self, dataset: DomainDataset) -> Task:
        """Return the task of the training domains; `dataset` must have its labels as loaded."""
        units: tuple[tuple[float, ...], ...] = ()
        if dataset.target:
            splits = self.training_splits(dataset)
            pairs = [(d, splits[d.name].in_) for d in dataset.domains if d.name in splits]
            weights = training_weights(dataset, splits, self.class_weight)
            units = standard_units([domain.label_array[rows] for domain, rows in pairs], weights)
        shape, classes, regime = dataset.input_shape, len(dataset.classes), dataset.regime
        domains = len(dataset.domains) - len(self.test_domains)
        return Task(shape, classes, domains, regime, self.loss, *units)

    def splits(self, dataset: DomainDataset) -> list[Split]:
        """Return the *in* and *out* part of each domain, in order."""
        return [
            split_domain(len(domain), self.holdout, self.data_seed, index)
            for index, domain in enumerate(dataset.domains)
        ]

    def training_splits(self, dataset: DomainDataset) -> dict[str, Split]:
        """Return the *in* and *out* part of each training domain, by name.

        Samples of weight 0 are left out of the *in* parts.
        """
        pairs = zip(dataset.domain_names, self.splits(dataset), strict=True)
        splits = {name: split for name, split in pairs if name not in self.test_domains}
        return without_weightless(dataset, splits)

    def algorithm_hparams(self, regime: Regime) -> Any:
        """Return the hyper-parameters of the algorithm."""
        declared = ALGORITHMS.get(self.algorithm).Hparams
        return resolve(declared, regime, declared_hparams(declared, self.hparams))

    def model(self, regime: Regime) -> Model:
        """Return the backbone with its hyper-parameters."""
        declared = MODELS.get(self.backbone)
        hparams = dict(self.hparams)
        if self.weights_file:
            content = content_hash(self.weights_file)
            if content != hparams["weights"]:
                raise InvalidValue(
                    f"{self.weights_file} has changed since the run was configured:"
                    f" {content}, not {hparams['weights']}"
                )
            hparams["weights"] = self.weights_file
        return resolve(declared, regime, declared_hparams(declared, hparams))


def declared_hparams(declared: type, hparams: Mapping[str, object]) -> dict[str, object]:
    """Return the hyper-parameters that a class declares."""
    names = specs(declared)
    return {name: value for name, value in hparams.items() if name in names}


def standard_units(
    labels: Sequence[np.ndarray], weights: Sequence[np.ndarray] | None = None
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation of the labels, with equal weight for each domain.

    Within a domain, samples are weighted by `weights`, if given.

    >>> standard_units([np.array([0.0, 2.0]), np.array([5.0, 5.0, 5.0])])
    ((3.0,), (2.1213203435596424,))
    >>> standard_units([np.array([0.0, 2.0])], [np.array([3.0, 1.0])])[0]
    (0.5,)
    """
    center = _mean_of_means(labels, weights)
    variance = _mean_of_means([np.square(part - center) for part in labels], weights)
    return (center,), (math.sqrt(variance) or 1.0,)


def _mean_of_means(parts: Sequence[np.ndarray], weights: Sequence[np.ndarray] | None) -> float:
    pairs = zip(parts, weights or repeat(None, len(parts)), strict=True)
    return fmean(float(np.average(part, weights=weight)) for part, weight in pairs)
