"""Evaluation of a network: accuracy or errors, and risk, on the requested sets only.

`training.evaluation_sets` does the same for algorithms fitted at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from shiftproof.core.types import CLASSIFICATION, REGRESSION, Task
from shiftproof.data.domain import as_numbers
from shiftproof.data.prefetch import prefetch
from shiftproof.learners.algorithms import Algorithm
from shiftproof.metrics.outputs import AnyOutputs
from shiftproof.models.risk import class_probabilities, predicted_class
from shiftproof.training import processes, shared_batches
from shiftproof.training.evaluation_sets import EvaluationSet, Score, batch_size, measures_of
from shiftproof.training.outputs import in_row_order


@torch.no_grad()
def evaluate(
    algorithm: Algorithm,
    subset: EvaluationSet,
    workers: int = 0,
    view_seed: int = 0,
    *,
    keep_outputs: bool = False,
) -> Score:
    """Return the score on a set; the algorithm keeps its mode, training or evaluation.

    The risk is not finite if the model's outputs are not.  `workers` threads read lazy inputs;
    `view_seed` determines the random views of an augmented set.
    """
    device, task = subset.domain.y.device, algorithm.task
    # Sums are in float64, except on MPS, which lacks it.
    precise = torch.float32 if device.type == "mps" else torch.float64
    sums = risk = torch.zeros((), dtype=precise, device=device)
    batches: list[tuple[Tensor, Tensor]] = []
    for logits, labels in predictions(algorithm, subset, workers, view_seed):
        sums = sums + _sums(task, logits, labels, precise)
        risk = risk + algorithm.sample_loss.risk(logits, labels).sum()
        if keep_outputs:
            batches.append((logits.cpu(), labels.cpu()))
    n = len(subset.index)
    parts = [torch.cat(part) for part in zip(*batches, strict=True)]
    outputs = (parts[0], parts[1]) if parts else None
    return Score(measures_of(task, (sums / n).tolist()), risk.item() / n, outputs)


def _sums(task: Task, outputs: Tensor, labels: Tensor, precise: torch.dtype) -> Tensor:
    """Return the number of right classes [1], or Σy, Σy², Σ|e| and Σe² in standard units [4]."""
    if task.kind == CLASSIFICATION:
        return (predicted_class(outputs) == labels).sum().to(precise)[None]
    y = labels.to(precise)
    error = outputs[:, 0].to(precise) - y
    return torch.stack([y, y.square(), error.abs(), error.square()]).sum(dim=1)


@torch.no_grad()
def predictions(
    algorithm: Algorithm, subset: EvaluationSet, workers: int = 0, view_seed: int = 0
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield logits and labels of a set, batch by batch; the algorithm keeps its mode.

    If there are several processes, each reads a share of the images.
    """
    device = subset.domain.y.device
    was_training = algorithm.training
    algorithm.eval()
    divided = processes.count() > 1 and subset.domain.is_lazy
    for stored, labels in read_in_order(subset, workers, view_seed, divided=divided):
        x = stored.to(device)
        x = shared_batches.exchanged(x, len(labels)) if divided else x
        yield algorithm.predict(as_numbers(x)).float(), labels
    algorithm.train(was_training)


def outputs_of(task: Task, logits: Tensor, labels: Tensor, rows: np.ndarray) -> AnyOutputs:
    """Return the outputs in the order of the rows; `labels` are in the form of a batch."""
    answers = logits if task.kind == REGRESSION else class_probabilities(logits.double())
    return in_row_order(task, answers.numpy(), labels.numpy(), rows)


def read_in_order(
    subset: EvaluationSet, workers: int = 0, view_seed: int = 0, *, divided: bool = False
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the stored inputs and the labels of a set, batch by batch.

    With `divided`, the inputs are only this process's share of each batch.
    """
    domain = subset.domain
    size = batch_size(domain)
    starts = range(0, len(subset.index), size)
    seeds = None
    if subset.augmented and domain.is_lazy:
        seeds = np.random.default_rng(view_seed).integers(2**63, size=len(subset.index))

    def read(start: int) -> tuple[Tensor, Tensor]:
        part = np.arange(start, min(start + size, len(subset.index)))
        share = part[shared_batches.own_share(len(part)).numpy()] if divided else part
        x = domain.stored(subset.index[share], None if seeds is None else seeds[share])
        return x, domain.labels(subset.index[part])

    return prefetch(read, starts, workers if domain.is_lazy else 0)
