"""Scores of a run on the domain that it held out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from shiftproof.data import DomainDataset
from shiftproof.training.config import RunConfig
from shiftproof.training.records import Record, shown_measure


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


def held_out_score(
    config: RunConfig, record: Record, dataset: DomainDataset, values: Mapping[str, float | None]
) -> AnyHeldOut:
    """Return the scores of a run with one test domain.

    `record` is its last record, and `values` are the scores of its stored outputs on that domain,
    by name.
    """
    (domain,) = config.test_domains
    position = dataset.index_of(domain)
    labels = dataset.domains[position].label_array
    _, by_set = shown_measure(record)
    within = [
        value for name, value in by_set.items() if name.endswith("/out") and name != f"{domain}/out"
    ]
    training_domains = fmean(within) if within else math.nan
    known = {name: value for name, value in values.items() if value is not None}
    if dataset.target:
        (center,) = config.task(dataset).center
        error = float(np.abs(labels - center).mean())
        r2, mae, rmse = (known.get(name, math.nan) for name in ("r2", "mae", "rmse"))
        samples = len(labels) if values else 0
        return HeldOutNumbers(
            domain, samples, r2, mae, rmse, error, training_domains, dataset.target
        )
    split = config.splits(dataset)[position]
    sizes = {f"{domain}/in": len(split.in_), f"{domain}/out": len(split.out)}
    evaluated = {name: size for name, size in sizes.items() if name in by_set}
    samples = sum(evaluated.values())
    right = sum(size * by_set[name] for name, size in evaluated.items())
    return HeldOutScore(
        domain,
        samples,
        right / samples if samples else math.nan,
        int(np.bincount(labels).max()) / len(labels),
        training_domains,
        known.get("auroc", math.nan),
    )
