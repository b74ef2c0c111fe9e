"""Evaluation: accuracy or errors, and risk, on the requested sets, and on no others."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np
import torch
from torch import Tensor

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.core.types import CLASSIFICATION, Task
from shiftproof.data import Domain, DomainDataset
from shiftproof.data.domain import as_numbers
from shiftproof.data.prefetch import prefetch
from shiftproof.data.splits import Split
from shiftproof.learners.algorithms import Algorithm
from shiftproof.models.risk import predicted_class
from shiftproof.training import processes
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
    """What was measured on samples, by name, and their mean risk.

    Of classes it is the `accuracy`, the share classified correctly; of numbers `r2`, `mae` and
    `rmse`, in the units of the labels, without R² where all labels are equal.  Several targets have
    no common unit: there all three are means over targets, in standard units (`core.types.Task`).
    `outputs` are the logits [n, classes] or numbers [n, targets], and the labels, on the CPU, if
    they were requested.
    """

    measured: Mapping[str, float]
    risk: float
    outputs: tuple[Tensor, Tensor] | None = field(default=None, compare=False, repr=False)


def plan_evaluation(
    config: RunConfig, dataset: DomainDataset, splits: list[Split]
) -> list[EvaluationSet]:
    """Return the sets in `config.evaluate`, named `domain/in` or `domain/out`.

    An extra set has its own name.  A requested part of a training domain without samples is an
    error.
    """
    sets = []
    for domain, split in zip(dataset.domains, splits, strict=True):
        role = "test" if domain.name in config.test_domains else "train"
        for part, index in (("in", split.in_), ("out", split.out)):
            kind = f"{role}-{part}"
            if kind not in config.evaluate:
                continue
            if len(index) == 0 and role == "test":
                continue  # all of the domain is in the other part
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


@torch.no_grad()
def evaluate(
    algorithm: Algorithm,
    subset: EvaluationSet,
    workers: int = 0,
    view_seed: int = 0,
    *,
    keep_outputs: bool = False,
) -> Score:
    """Return what is measured on a set; the algorithm keeps its mode, training or evaluation.

    The risk is not finite if the model's outputs are not.  `workers` threads read lazy inputs;
    `view_seed` decides the random views of an augmented set.
    """
    device = subset.domain.y.device
    task = algorithm.task
    measure = _Correct(device) if task.kind == CLASSIFICATION else _Errors(device, task)
    risk = torch.zeros((), dtype=_precise(device), device=device)
    kept: list[tuple[Tensor, Tensor]] = []
    for logits, labels in predictions(algorithm, subset, workers, view_seed):
        measure.add(logits, labels)
        risk += algorithm.sample_loss.risk(logits, labels).sum()
        if keep_outputs:
            kept.append((logits.cpu(), labels.cpu()))
    n = len(subset.index)
    outputs = (torch.cat([x for x, _ in kept]), torch.cat([y for _, y in kept])) if kept else None
    return Score(measure.measured(n), risk.item() / n, outputs)


class _Correct:
    """Counts how many samples are classified correctly."""

    def __init__(self, device: torch.device) -> None:
        self.correct = torch.zeros((), dtype=torch.int64, device=device)

    def add(self, logits: Tensor, labels: Tensor) -> None:
        self.correct += (predicted_class(logits) == labels).sum()

    def measured(self, n: int) -> dict[str, float]:
        return {"accuracy": self.correct.item() / n}


class _Errors:
    """Adds up y, y², |e| and e² of each target, in standard units."""

    def __init__(self, device: torch.device, task: Task) -> None:
        targets = task.num_outputs
        self.sums = torch.zeros(4, targets, dtype=_precise(device), device=device)
        self.scale = task.scale[0] if targets == 1 else 1.0

    def add(self, outputs: Tensor, labels: Tensor) -> None:
        y = labels.to(self.sums.dtype).reshape(len(labels), -1)
        error = outputs.to(self.sums.dtype) - y
        self.sums += torch.stack([y, y.square(), error.abs(), error.square()]).sum(dim=1)

    def measured(self, n: int) -> dict[str, float]:
        r2, found = [], {"mae": 0.0, "rmse": 0.0}
        targets = self.sums.shape[1]
        for y, squared_y, absolute, squared in (self.sums.T / n).tolist():
            variance = squared_y - y * y
            found["mae"] += self.scale * absolute / targets
            found["rmse"] += self.scale * math.sqrt(squared) / targets
            # What is left of the variance of equal labels is a rounding error.
            if variance > 1e-12 * squared_y:
                r2.append(1 - squared / variance)
        return {"r2": fmean(r2), **found} if r2 else found


def _precise(device: torch.device) -> torch.dtype:
    """Return in which precision to add up; MPS has no float64."""
    return torch.float32 if device.type == "mps" else torch.float64


@torch.no_grad()
def predictions(
    algorithm: Algorithm, subset: EvaluationSet, workers: int = 0, view_seed: int = 0
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield logits and labels of a set, batch by batch; the algorithm keeps its mode.

    Of several processes, each reads a share of the images.
    """
    device = subset.domain.y.device
    was_training = algorithm.training
    algorithm.eval()
    divided = processes.count() > 1 and subset.domain.is_lazy
    for stored, labels in read_in_order(subset, workers, view_seed, divided=divided):
        x = stored.to(device)
        x = processes.exchanged(x, len(labels)) if divided else x
        yield algorithm.predict(as_numbers(x)).float(), labels
    algorithm.train(was_training)


def read_in_order(
    subset: EvaluationSet, workers: int = 0, view_seed: int = 0, *, divided: bool = False
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the stored inputs and the labels of a set, batch by batch.

    If they are `divided`, the inputs are only those of this process's share of the batch.
    """
    domain = subset.domain
    size = batch_size(domain)
    starts = range(0, len(subset.index), size)
    seeds = None
    if subset.augmented and domain.is_lazy:
        seeds = np.random.default_rng(view_seed).integers(2**63, size=len(subset.index))

    def read(start: int) -> tuple[Tensor, Tensor]:
        part = np.arange(start, min(start + size, len(subset.index)))
        own = part[processes.own_share(len(part)).numpy()] if divided else part
        x = domain.stored(subset.index[own], None if seeds is None else seeds[own])
        return x, domain.labels(subset.index[part])

    return prefetch(read, starts, workers if domain.is_lazy else 0)


def batch_size(domain: Domain) -> int:
    """Return the largest batch size within a limit on bytes."""
    per_sample = 4 * math.prod(domain.x.shape[1:])
    return max(1, min(MOST_SAMPLES, MOST_BYTES // per_sample))


def reading_threads(asked: int | None) -> int:
    """Return how many threads read image files: by default one a core, at most eight."""
    if asked is None:
        return min(os.cpu_count() or 1, 8)
    if asked < 0:
        raise InvalidValue(f"`workers` must be at least 0, not {asked}")
    return asked
