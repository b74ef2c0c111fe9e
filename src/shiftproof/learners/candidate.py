"""Candidates: kinds of models to select from on held-out domains.

A candidate has a few variants (penalties, numbers of trees).  For every variant, it predicts the
rows of each domain with models that were not trained on that domain.  The final model is fitted
with the best variant (`learners.judging`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from shiftproof.learners.samples import Samples

# Floating-point operations per second of large matrix products on one core.
OPERATIONS_A_SECOND = 1.5e10


class Size(NamedTuple):
    """The size of a fit, which determines its time: rows, encoded columns, and outputs.

    Two classes are one output.  Times are rough estimates from one machine, not measurements.
    They decide which candidates are tried, so that every machine tries the same.
    """

    rows: float
    columns: int
    outputs: int


def size_of(samples: Samples) -> Size:
    """Return the size of a fit to these samples, with one column per category."""
    codes = samples.x[:, samples.categorical]
    categories = np.nanmax(np.where(np.isnan(codes), 0, codes), axis=0, initial=0) + 1
    numbers = ~samples.categorical
    gaps = np.isnan(samples.x[:, numbers]).any(axis=0)
    columns = int(numbers.sum() + gaps.sum() + categories.sum())
    return Size(len(samples), columns, 1 if samples.classes == 2 else samples.outputs)


class Candidate(ABC):
    """A kind of model, with variants that differ in one setting."""

    name: str
    variants: Sequence[Any]

    @abstractmethod
    def predictions(self, train: Samples, x: np.ndarray, seed: int) -> np.ndarray:
        """Fit every variant to ``train`` and return their predictions for ``x`` [n, d].

        Predictions are probabilities [variants, n, classes], 0 for classes missing from ``train``,
        or numbers [variants, n, 1].
        """

    @abstractmethod
    def seconds(self, size: Size) -> float:
        """Estimate the seconds that `predictions` or `fit` takes on one core; see `Size`."""

    @abstractmethod
    def fit(self, train: Samples, variant: Any, seed: int) -> Any:
        """Return a scikit-learn classifier or regressor, fitted with one variant."""

    def seconds_to_judge(self, size: Size, folds: int) -> float:
        """Estimate the seconds that `held_out` and one `fit` take on one core."""
        part = size._replace(rows=size.rows * (folds - 1) / folds)
        return folds * self.seconds(part) + self.seconds(size)

    def held_out(self, samples: Samples, folds: np.ndarray, seed: int) -> np.ndarray:
        """Predict each row with models not trained on its fold: [variants, n, classes]."""
        found = np.empty((len(self.variants), len(samples), samples.outputs))
        for fold in np.unique(folds):
            rows = folds == fold
            found[:, rows] = self.predictions(samples.only(~rows), samples.x[rows], seed)
        return found


def in_all_classes(predicted: np.ndarray, classes: np.ndarray, total: int) -> np.ndarray:
    """Expand predictions [n, len(classes)] to [n, total], with 0 for the other classes."""
    spread = np.zeros((len(predicted), total))
    spread[:, classes] = predicted
    return spread
