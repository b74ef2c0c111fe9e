"""Candidates: kinds of models that held-out domains choose from.

A candidate has a few variants (penalties, numbers of trees).  It predicts the rows of each domain
by models that were not trained on that domain, for every variant, and it is fitted for good with
one of them (`learners.judging`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from shiftproof.learners.samples import Samples


class Candidate(ABC):
    """A kind of model, and variants of it that differ in one setting."""

    name: str
    variants: Sequence[Any]

    @abstractmethod
    def predictions(self, train: Samples, x: np.ndarray, seed: int) -> np.ndarray:
        """Fit every variant to ``train``; return their predictions of ``x`` [n, d].

        [variants, n, classes], probabilities; a class that ``train`` lacks has probability 0.
        """

    @abstractmethod
    def fit(self, train: Samples, variant: Any, seed: int) -> Any:
        """Return a fitted scikit-learn classifier of one variant."""

    def held_out(self, samples: Samples, folds: np.ndarray, seed: int) -> np.ndarray:
        """Predict every row by models that were not trained on its fold: [variants, n, classes]."""
        found = np.empty((len(self.variants), len(samples), samples.classes))
        for fold in np.unique(folds):
            rows = folds == fold
            found[:, rows] = self.predictions(samples.only(~rows), samples.x[rows], seed)
        return found


def in_all_classes(predicted: np.ndarray, classes: np.ndarray, total: int) -> np.ndarray:
    """Spread predictions [n, len(classes)] to [n, total], with 0 for the others."""
    spread = np.zeros((len(predicted), total))
    spread[:, classes] = predicted
    return spread
