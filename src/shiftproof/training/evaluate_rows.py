"""Evaluation of algorithms fitted at once, without torch: accuracy or errors, and risk."""

from __future__ import annotations

import numpy as np

from shiftproof.core.types import CLASSIFICATION, Task
from shiftproof.data.domain import as_float_rows
from shiftproof.learners.exact import Exact
from shiftproof.models.loss_names import ABSOLUTE
from shiftproof.training.evaluation_sets import (
    EvaluationSet,
    Score,
    batches_of,
    error_measures,
)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Return the log-probabilities of logits [n, c], in double precision.

    >>> log_softmax(np.array([[0.0, 0.0]])).round(4).tolist()
    [[-0.6931, -0.6931]]
    """
    high = logits.astype(np.float64)
    high -= high.max(axis=1, keepdims=True)
    found: np.ndarray = high - np.log(np.exp(high).sum(axis=1, keepdims=True))
    return found


def row_losses(task: Task, outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the loss of each row, [n], as `models.risk` defines it, in double precision."""
    if task.kind == CLASSIFICATION:
        found: np.ndarray = -log_softmax(outputs)[np.arange(len(labels)), labels]
        return found
    errors = outputs.astype(np.float64) - labels.reshape(len(labels), -1)
    losses = np.abs(errors) if task.loss == ABSOLUTE else np.square(errors) / 2
    mean: np.ndarray = losses.mean(axis=1)
    return mean


def row_outputs(learner: Exact, subset: EvaluationSet) -> np.ndarray:
    """Return the predicted log-probabilities or numbers for the rows of a set, as float32."""
    found = [learner.predict(as_float_rows(subset.domain.rows(own))) for own in batches_of(subset)]
    whole: np.ndarray = np.concatenate(found).astype(np.float32)
    return whole


def evaluate_rows(learner: Exact, subset: EvaluationSet, *, keep_outputs: bool = False) -> Score:
    """Return the score on a set."""
    task = learner.task
    outputs, labels = row_outputs(learner, subset), subset.domain.label_array[subset.index]
    risk = float(row_losses(task, outputs, labels).mean())
    if task.kind == CLASSIFICATION:
        right = int((outputs.argmax(axis=1) == labels).sum())
        measured = {"accuracy": right / len(labels)}
    else:
        y = labels.reshape(len(labels), -1)
        error = outputs.astype(np.float64) - y
        sums = np.stack([y, np.square(y), np.abs(error), np.square(error)]).mean(axis=1)
        measured = error_measures(sums.T.tolist(), task.scale[0] if task.num_outputs == 1 else 1.0)
    return Score(measured, risk, (outputs, labels) if keep_outputs else None)
