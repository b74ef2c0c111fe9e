"""Evaluation: accuracy and risk on the sets that were asked for, and on nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shiftproof.algorithms import Algorithm
from shiftproof.data import Domain, DomainDataset
from shiftproof.data.splits import Split
from shiftproof.errors import DataError
from shiftproof.penalties.risk import per_sample_risk, predicted_class
from shiftproof.training.config import RunConfig

BATCH = 1024


@dataclass(frozen=True)
class EvaluationSet:
    """Some samples of a domain, under the name their accuracy is recorded by.

    ``kind`` is one of :data:`~shiftproof.training.config.EVALUATION_SETS`.
    """

    name: str
    domain: Domain
    index: np.ndarray
    kind: str = "extra"


@dataclass(frozen=True)
class Score:
    """Share of samples classified correctly, and their mean risk."""

    accuracy: float
    risk: float


def plan_evaluation(
    config: RunConfig, dataset: DomainDataset, splits: list[Split]
) -> list[EvaluationSet]:
    """Return the sets that ``config.evaluate`` asks for, named ``domain/in`` or ``domain/out``.

    An extra set goes by its own name.  A held-out part without samples is an error: it was asked
    for, and a number for it would be made up.
    """
    sets = []
    for domain, split in zip(dataset.domains, splits, strict=True):
        role = "test" if domain.name in config.test_domains else "train"
        for part, index in (("in", split.in_), ("out", split.out)):
            kind = f"{role}-{part}"
            if kind not in config.evaluate:
                continue
            if len(index) == 0:
                raise DataError(
                    f"domain {domain.name!r} ({len(domain)} samples) has none in its {part!r} part"
                    f" at --holdout {config.holdout:g}; leave {kind} out of --evaluate"
                )
            sets.append(EvaluationSet(f"{domain.name}/{part}", domain, index, kind))
    if "extra" in config.evaluate:
        sets += [EvaluationSet(d.name, d, np.arange(len(d))) for d in dataset.extras]
    return sets


@torch.no_grad()
def evaluate(algorithm: Algorithm, subset: EvaluationSet) -> Score:
    """Return accuracy and mean risk; the algorithm is left in the mode it was in.

    The risk is not finite if the model's outputs are not.
    """
    device = subset.domain.y.device
    index = torch.from_numpy(subset.index).to(device)
    correct = torch.zeros((), dtype=torch.int64, device=device)
    risk = torch.zeros((), dtype=torch.float64 if device.type != "mps" else None, device=device)
    was_training = algorithm.training
    algorithm.eval()
    for part in _chunks(index):
        logits = algorithm.predict(subset.domain.inputs(part)).float()
        labels = subset.domain.y[part]
        correct += (predicted_class(logits) == labels).sum()
        risk += per_sample_risk(logits, labels).sum()
    algorithm.train(was_training)
    n = len(index)
    return Score(correct.item() / n, risk.item() / n)


def _chunks(index: Tensor) -> tuple[Tensor, ...]:
    return torch.split(index, BATCH)
