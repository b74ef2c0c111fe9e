"""Predictions and labels of the samples of a domain, of which metrics are taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from shiftproof.core.errors import DataError
from shiftproof.core.types import CLASSIFICATION, REGRESSION, Kind

NO_ROWS = np.empty(0, dtype=np.int64)


class Outputs(NamedTuple):
    """Probabilities [n, classes] and labels [n] of samples, and their positions in the domain."""

    probabilities: np.ndarray
    labels: np.ndarray
    rows: np.ndarray = NO_ROWS

    @property
    def predicted(self) -> np.ndarray:
        """The class with the highest probability [n]."""
        return np.asarray(self.probabilities.argmax(axis=1))

    @property
    def task(self) -> Kind:
        """The kind of task."""
        return CLASSIFICATION


class NumberOutputs(NamedTuple):
    """Predicted numbers and labels [n] of samples, in the units of the labels."""

    predicted: np.ndarray
    labels: np.ndarray
    rows: np.ndarray = NO_ROWS

    @property
    def task(self) -> Kind:
        """The kind of task."""
        return REGRESSION


AnyOutputs = Outputs | NumberOutputs
O = TypeVar("O", bound=AnyOutputs)  # noqa: E741


def of_classes(outputs: Mapping[str, AnyOutputs], what: str) -> dict[str, Outputs]:
    """Return the outputs if they are class probabilities, else raise that `what` needs these."""
    known = {domain: own for domain, own in outputs.items() if isinstance(own, Outputs)}
    if len(known) < len(outputs):
        raise DataError(f"{what} needs predicted classes, but these runs predict numbers")
    return known


def of_numbers(outputs: Mapping[str, AnyOutputs], what: str) -> dict[str, NumberOutputs]:
    """Return the outputs if they are numbers, else raise that `what` needs these."""
    known = {domain: own for domain, own in outputs.items() if isinstance(own, NumberOutputs)}
    if len(known) < len(outputs):
        raise DataError(f"{what} needs predicted numbers, but these runs predict classes")
    return known


def task_of(outputs: Iterable[AnyOutputs]) -> Kind | None:
    """Return the kind of task of outputs, or None if there are none."""
    kinds = {own.task for own in outputs}
    if len(kinds) > 1:
        raise DataError("some runs predict classes and others numbers; give the runs of one task")
    return kinds.pop() if kinds else None


def pooled(parts: Sequence[O]) -> O:
    """Return the outputs of several domains, concatenated."""
    predicted, labels = (np.concatenate([part[field] for part in parts]) for field in (0, 1))
    return type(parts[0])(predicted, labels, np.arange(len(labels)))


def confusion(outputs: Outputs) -> list[list[int]]:
    """Return the confusion matrix, as counts [label][predicted]."""
    classes = outputs.probabilities.shape[1]
    pairs = outputs.labels * classes + outputs.predicted
    counts = np.bincount(pairs, minlength=classes**2).tolist()
    return [counts[start : start + classes] for start in range(0, classes**2, classes)]
