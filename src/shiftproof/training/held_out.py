"""Scores of a run on the domain that it held out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from shiftproof.data import DomainDataset
from shiftproof.metrics.base import scores
from shiftproof.metrics.outputs import NumberOutputs
from shiftproof.training.config import RunConfig
from shiftproof.training.records import Record


@dataclass(frozen=True)
class HeldOutScore:
    """Accuracies of a run that held out one domain.

    `accuracy` is computed on the `samples` of the held-out domain that were evaluated;
    `commonest_class` is the accuracy there of always predicting the domain's commonest class.
    `training_domains` is the mean over the training domains of the accuracy on their held-out
    parts.  Values that were not evaluated are NaN, and so is the AUROC (macro) of a domain with
    one class.
    """

    domain: str
    samples: int
    accuracy: float
    commonest_class: float
    training_domains: float
    auroc: float = math.nan

    @property
    def shown(self) -> float:
        """The measure that is shown first; higher is better."""
        return self.accuracy


@dataclass(frozen=True)
class HeldOutNumbers:
    """Errors of a regression run that held out one domain.

    `r2`, `mae` and `rmse` are computed on the `samples` of the held-out domain that were evaluated;
    `training_mean` is the MAE there of always predicting the mean of the training domains, with
    equal weight for each.  `training_domains` is the mean over the training domains of R² on their
    held-out parts.  Values that were not evaluated, or are undefined, are NaN.  `target` is the
    name of the predicted number.
    """

    domain: str
    samples: int
    r2: float
    mae: float
    rmse: float
    training_mean: float
    training_domains: float
    target: str = ""

    @property
    def shown(self) -> float:
        """The measure that is shown first; higher is better."""
        return self.r2


AnyHeldOut = HeldOutScore | HeldOutNumbers


def held_out_numbers(
    config: RunConfig, record: Record, dataset: DomainDataset, outputs: NumberOutputs | None
) -> HeldOutNumbers:
    """Return the errors of a run with one test domain, from its outputs there."""
    (domain,) = config.test_domains
    labels = dataset.domains[dataset.index_of(domain)].label_array
    (center,) = config.task(dataset).center
    within = [
        value
        for name, value in record.get("r2", {}).items()
        if name.endswith("/out") and name.rpartition("/")[0] != domain
    ]
    values = {} if outputs is None else scores(outputs)
    r2, mae, rmse = (
        math.nan if (value := values.get(name)) is None else value for name in ("r2", "mae", "rmse")
    )
    return HeldOutNumbers(
        domain,
        len(labels) if values else 0,
        r2,
        mae,
        rmse,
        float(np.abs(labels - center).mean()),
        fmean(within) if within else math.nan,
        dataset.target,
    )


def held_out_score(config: RunConfig, record: Record, dataset: DomainDataset) -> HeldOutScore:
    """Return the accuracies at one record of a run with one test domain."""
    (domain,) = config.test_domains
    accuracy: Mapping[str, float] = record.get("accuracy", {})
    position = dataset.index_of(domain)
    labels, split = dataset.domains[position].label_array, config.splits(dataset)[position]
    sizes = {f"{domain}/in": len(split.in_), f"{domain}/out": len(split.out)}
    evaluated = {name: size for name, size in sizes.items() if name in accuracy}
    samples = sum(evaluated.values())
    right = sum(size * accuracy[name] for name, size in evaluated.items())
    within = [
        value
        for name, value in accuracy.items()
        if name.endswith("/out") and name.rpartition("/")[0] != domain
    ]
    return HeldOutScore(
        domain,
        samples,
        right / samples if samples else math.nan,
        int(np.bincount(labels).max()) / len(labels),
        fmean(within) if within else math.nan,
    )
