"""The samples that a run is evaluated on, their batches, and their scores.

`evaluate_rows` scores algorithms that are fitted at once, without torch; `training.evaluate` scores
networks.  `held_out_sets` are the samples that an algorithm looks at while it trains
(`Algorithm.looks`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import log_softmax

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.core.types import CLASSIFICATION, Task
from shiftproof.data import Domain, DomainDataset
from shiftproof.data.domain import as_float_rows
from shiftproof.data.splits import Split
from shiftproof.learners.exact import Exact
from shiftproof.models.loss_names import ABSOLUTE
from shiftproof.training.config import RunConfig

# The largest batch; bytes are counted as float32.
MOST_SAMPLES = 1024
MOST_BYTES = 40 * 1024**2


@dataclass(frozen=True)
class EvaluationSet:
    """Some samples of a domain, with the name of their accuracy in the records.

    `kind` is one of `EVALUATION_SETS`; an `augmented` set is evaluated on random views of its
    images.
    """

    name: str
    domain: Domain
    index: np.ndarray
    kind: str = "extra"
    augmented: bool = False


@dataclass(frozen=True)
class Score:
    """Measures on some samples, by name, and their mean risk.

    For classification, `measured` holds `accuracy`; for regression, `r2`, `mae` and `rmse` in the
    units of the labels, without R² if all labels are equal.  Several targets have no common unit:
    all three are then means over targets, in standard units (`core.types.Task`).  If requested,
    `outputs` holds the logits [n, classes] or numbers [n, targets], and the labels, as tensors on
    the CPU or arrays.
    """

    measured: Mapping[str, float]
    risk: float
    outputs: tuple[Any, Any] | None = field(default=None, compare=False, repr=False)


def plan_evaluation(
    config: RunConfig, dataset: DomainDataset, splits: list[Split]
) -> list[EvaluationSet]:
    """Return the sets in `config.evaluate`, named `domain/in` or `domain/out`.

    An extra set keeps its own name.  A requested part of a training domain that has no samples is
    an error.
    """
    sets = []
    for domain, split in zip(dataset.domains, splits, strict=True):
        role = "test" if domain.name in config.test_domains else "train"
        for part, index in (("in", split.in_), ("out", split.out)):
            kind = f"{role}-{part}"
            if kind not in config.evaluate:
                continue
            if len(index) == 0 and role == "test":
                continue  # all samples are in the other part
            if len(index) == 0:
                raise DataError(
                    f"domain {domain.name!r} ({len(domain)} samples) has none in its {part!r} part"
                    f" at `holdout={config.holdout:g}`; change it, leave {kind} out of `evaluate`,"
                    " or remove the domain"
                )
            augmented = config.augment_validation and role == "train"
            name = f"{domain.name}/{part}"
            sets.append(EvaluationSet(name, domain, index, kind, augmented))
    if "extra" in config.evaluate:
        sets += [EvaluationSet(d.name, d, np.arange(len(d))) for d in dataset.extras]
    return sets


def measures_of(task: Task, means: Sequence[float]) -> dict[str, float]:
    """Return the accuracy from the mean of right classes, or R², MAE and RMSE of numbers.

    For numbers, `means` are those of y, y², |e| and e² in standard units.  R² is left out if all
    labels are equal.
    """
    if task.kind == CLASSIFICATION:
        return {"accuracy": means[0]}
    y, squared_y, absolute, squared = means
    errors = {"mae": task.scale[0] * absolute, "rmse": task.scale[0] * math.sqrt(squared)}
    variance = squared_y - y * y
    # The variance of equal labels may be a rounding error instead of 0.
    return {"r2": 1 - squared / variance, **errors} if variance > 1e-12 * squared_y else errors


def batches_of(subset: EvaluationSet) -> Iterator[np.ndarray]:
    """Yield the positions of the samples of a set in its domain, batch by batch."""
    size = batch_size(subset.domain)
    for start in range(0, len(subset.index), size):
        yield subset.index[start : start + size]


def batch_size(domain: Domain) -> int:
    """Return the largest batch size within a limit on bytes."""
    per_sample = 4 * math.prod(domain.shape[1:])
    return max(1, min(MOST_SAMPLES, MOST_BYTES // per_sample))


def reading_threads(asked: int | None) -> int:
    """Return the number of threads that read image files: by default one per core, at most 8."""
    if asked is None:
        return min(os.cpu_count() or 1, 8)
    if asked < 0:
        raise InvalidValue(f"`workers` must be at least 0, not {asked}")
    return asked


def row_losses(task: Task, outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the loss of each row, [n], as `models.risk` defines it, in double precision."""
    if task.kind == CLASSIFICATION:
        logs: np.ndarray = log_softmax(outputs.astype(np.float64), axis=1)
        right: np.ndarray = -logs[np.arange(len(labels)), labels]
        return right
    errors = outputs[:, 0].astype(np.float64) - labels
    losses: np.ndarray = np.abs(errors) if task.loss == ABSOLUTE else np.square(errors) / 2
    return losses


def row_outputs(learner: Exact, subset: EvaluationSet) -> np.ndarray:
    """Return the predicted log-probabilities or numbers for the rows of a set, as float32."""
    batches = [learner.predict(as_float_rows(subset.domain.rows(i))) for i in batches_of(subset)]
    whole: np.ndarray = np.concatenate(batches).astype(np.float32)
    return whole


def evaluate_rows(learner: Exact, subset: EvaluationSet, *, keep_outputs: bool = False) -> Score:
    """Return the score on a set."""
    task = learner.task
    outputs, labels = row_outputs(learner, subset), subset.domain.label_array[subset.index]
    risk = float(row_losses(task, outputs, labels).mean())
    if task.kind == CLASSIFICATION:
        terms = [outputs.argmax(axis=1) == labels]
    else:
        error = outputs[:, 0].astype(np.float64) - labels
        terms = [labels, np.square(labels), np.abs(error), np.square(error)]
    measured = measures_of(task, np.stack(terms).mean(axis=1).tolist())
    return Score(measured, risk, (outputs, labels) if keep_outputs else None)


def held_out_sets(
    config: RunConfig, dataset: DomainDataset, splits: Sequence[Split]
) -> list[EvaluationSet]:
    """Return the held-out part of each training domain."""
    if config.holdout == 0:
        raise InvalidValue(
            f"{config.algorithm} decides on the held-out parts of the training domains: set"
            " `holdout` above 0"
        )
    return [
        EvaluationSet(f"{domain.name}/out", domain, split.out, "train-out")
        for domain, split in zip(dataset.domains, splits, strict=True)
        if domain.name not in config.test_domains and len(split.out) > 0
    ]
