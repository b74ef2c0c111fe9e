"""Candidates: kinds of models that held-out domains choose from.

A candidate has a few variants (penalties, numbers of trees).  It predicts the rows of each domain
by models that were not trained on that domain, for every variant, and it is fitted for good with
one of them (`learners.judging`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, NamedTuple

import numpy as np

from shiftproof.core.standardize import NONE
from shiftproof.learners.samples import Samples

# Multiplications and additions of large products on one core.
OPERATIONS_A_SECOND = 1.5e10


class Size(NamedTuple):
    """What the time of a fit depends on: rows, columns once encoded, and outputs.

    Two classes are one output.  Times are rough, from one machine: they decide what is tried within
    a budget, in the same way everywhere.
    """

    rows: float
    columns: int
    outputs: int


def size_of(samples: Samples) -> Size:
    """Return the size of a fit to these samples: a category is one column each."""
    codes = samples.x[:, samples.categorical]
    categories = np.nanmax(np.where(np.isnan(codes), 0, codes), axis=0, initial=0) + 1
    numbers = ~samples.categorical
    gaps = np.isnan(samples.x[:, numbers]).any(axis=0)
    columns = int(numbers.sum() + gaps.sum() + categories.sum())
    return Size(len(samples), columns, 1 if samples.classes == 2 else samples.outputs)


class Candidate(ABC):
    """A kind of model, and variants of it that differ in one setting.

    ``view`` says which view of the rows it takes (`data.within_domain`).
    """

    name: str
    variants: Sequence[Any]
    view: ClassVar[str] = NONE

    @abstractmethod
    def predictions(self, train: Samples, x: np.ndarray, seed: int) -> np.ndarray:
        """Fit every variant to ``train``; return their predictions of ``x`` [n, d].

        [variants, n, classes], probabilities; a class that ``train`` lacks has probability 0.  Of
        numbers, [variants, n, targets].
        """

    @abstractmethod
    def seconds(self, size: Size) -> float:
        """Return about how long `predictions` and `fit` take on a core; see `Size`."""

    @abstractmethod
    def fit(self, train: Samples, variant: Any, seed: int) -> Any:
        """Return a fitted scikit-learn model of one variant: a classifier, or a regressor."""

    def limited(self, threads: int) -> AbstractContextManager[None]:
        """Let what has a number of threads of its own, beside OpenMP and BLAS, use no more."""
        return nullcontext()

    def seconds_to_judge(self, size: Size, folds: int) -> float:
        """Return about how long `held_out` and one `fit` take on a core."""
        part = size._replace(rows=size.rows * (folds - 1) / folds)
        return folds * self.seconds(part) + self.seconds(size)

    def held_out(self, samples: Samples, folds: np.ndarray, seed: int) -> np.ndarray:
        """Predict every row by models that were not trained on its fold: [variants, n, classes]."""
        found = np.empty((len(self.variants), len(samples), samples.outputs))
        for fold in np.unique(folds):
            rows = folds == fold
            found[:, rows] = self.predictions(samples.only(~rows), samples.x[rows], seed)
        return found


def side_by_side(models: Sequence[Any]) -> Any:
    """Return fitted regressors, one for each target, as one of scikit-learn's."""
    from sklearn.multioutput import MultiOutputRegressor  # type: ignore[import-untyped]

    joined = MultiOutputRegressor(models[0])
    joined.estimators_ = list(models)
    joined.n_features_in_ = models[0].n_features_in_
    return joined


def in_all_classes(predicted: np.ndarray, classes: np.ndarray, total: int) -> np.ndarray:
    """Spread predictions [n, len(classes)] to [n, total], with 0 for the others."""
    spread = np.zeros((len(predicted), total))
    spread[:, classes] = predicted
    return spread
