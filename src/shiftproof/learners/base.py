"""The contract of a learner that is fitted at once: linear models, trees, and ensembles of them.

A `Candidate` is one kind of model with a few variants (penalties, numbers of trees).  It predicts
the rows of each domain by models that were not trained on that domain, for every variant, and it
is fitted for good with one of them.  A `Learner` chooses among candidates by those predictions and
returns an `Ensemble`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from shiftproof.core.registry import Registry
from shiftproof.learners.ensemble import Ensemble
from shiftproof.learners.samples import Samples

# Told what is being fitted, how many of how many are done.
Progress = Callable[[str, int, int], None]


def silent(what: str, done: int, total: int) -> None:
    """Tell nobody."""


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


class Learner(ABC):
    """What is fitted at once to the samples of several domains.

    Chance comes from ``seed`` alone: the same samples and seed give the same ensemble.
    """

    family: ClassVar[str] = "exact"
    paper: ClassVar[str] = ""

    @dataclass(frozen=True)
    class Hparams:
        """The settings of a learner."""

    def __init__(self, hparams: Hparams) -> None:
        self.hparams = hparams

    @abstractmethod
    def fit(self, samples: Samples, seed: int, progress: Progress = silent) -> Ensemble:
        """Return a model of all samples, its settings chosen by held-out domains."""


LEARNERS: Registry[type[Learner]] = Registry("algorithm", package="shiftproof.learners")


def in_all_classes(predicted: np.ndarray, classes: np.ndarray, total: int) -> np.ndarray:
    """Spread predictions [n, len(classes)] to [n, total], with 0 for the others."""
    spread = np.zeros((len(predicted), total))
    spread[:, classes] = predicted
    return spread
