"""Candidates: kinds of models to select from on held-out domains.

A candidate has a few variants (penalties, numbers of trees).  For every variant, it predicts the
rows of each domain with models that were not trained on that domain.  The final model is fitted
with the best variant (`judge`).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from shiftproof.core.cores import one_thread_each
from shiftproof.core.errors import DataError
from shiftproof.learners.criterion import criterion_of
from shiftproof.learners.ensemble import Ensemble, Member, MemberModel
from shiftproof.learners.samples import Samples, held_out_folds
from shiftproof.metrics import METRICS, Outputs

# Floating-point operations per second of large matrix products on one core.
OPERATIONS_A_SECOND = 1.5e10
# The metric for calibration, and the default of learners that choose settings.
LOG_LOSS = "log_loss"


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

    # Models of one family make similar errors; `best` gives families equal weights beforehand.
    family: ClassVar[str]
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
    def fit(self, train: Samples, variant: Any, seed: int) -> MemberModel:
        """Return the model fitted with one variant."""

    def seconds_to_judge(self, size: Size, folds: int) -> float:
        """Estimate the seconds that `held_out` and one `fit` take on one core."""
        part = size._replace(rows=size.rows * (folds - 1) / folds)
        return folds * self.seconds(part) + self.seconds(size)

    def held_out(self, samples: Samples, folds: np.ndarray, seed: int) -> np.ndarray:
        """Predict each row with models not trained on its fold: [variants, n, classes]."""
        predicted = np.empty((len(self.variants), len(samples), samples.outputs))
        for fold in np.unique(folds):
            rows = folds == fold
            predicted[:, rows] = self.predictions(samples.only(~rows), samples.x[rows], seed)
        return predicted


def in_all_classes(
    predicted: np.ndarray, known: Sequence[int] | np.ndarray, train: Samples
) -> np.ndarray:
    """Expand probabilities [n, k] of known classes to all classes, with 0 for the others.

    Numbers [n, 1] are returned unchanged.
    """
    if not len(known):
        return predicted
    spread = np.zeros((len(predicted), train.classes))
    spread[:, known] = predicted
    return spread


# The most models fitted to evaluate one candidate; with more domains, some are held out together.
MOST_FOLDS = 5


def held_out_scores(predicted: np.ndarray, samples: Samples) -> tuple[float, float]:
    """Return the risk and the score of predictions [n, k] by models not trained on the domains.

    Both are unweighted means over domains.  The risk is the log loss or the regression loss, and
    the score the accuracy or R² (`learners.criterion`).  Sample weights count in the risk only.
    """
    criterion = criterion_of(samples)
    _, domain = np.unique(samples.domain, return_inverse=True)
    weights = samples.weights()
    losses = weights * criterion.losses(predicted, samples)
    by_domain = np.bincount(domain, losses) / np.bincount(domain, weights)
    known = [value for value in criterion.scores(predicted, samples) if not np.isnan(value)]
    return float(by_domain.mean()), float(np.mean(known)) if known else np.nan


def mean_loss(metric: str, predicted: np.ndarray, samples: Samples) -> float:
    """Return the mean loss of probabilities [n, classes] over domains; lower is better.

    Domains where the score is undefined are skipped.
    """
    asked = METRICS.get(metric)
    by_domain = (Outputs(predicted[rows], samples.y[rows]) for rows in samples.rows_by_domain())
    values = [value for value in map(asked.score, by_domain) if value is not None]
    if not values:
        raise DataError(f"`metric` {metric} is undefined in every training domain; use another")
    return float(np.mean([asked.loss(value) for value in values]))


@dataclass(frozen=True)
class Judged:
    """A candidate with its best variant, and the scores of that variant on held-out domains.

    ``predicted`` [n, k] are calibrated probabilities or numbers, from models not trained on the
    row's domain.
    """

    candidate: Candidate
    variant: Any
    temperature: float
    predicted: np.ndarray
    risk: float
    score: float
    seconds: float

    def fitted(self, samples: Samples, seed: int, weight: float = 1.0) -> Member:
        """Return a member fitted to all samples."""
        started = time.perf_counter()
        with one_thread_each():
            model = self.candidate.fit(samples, self.variant, seed)
        seconds = self.seconds + time.perf_counter() - started
        label = f"{self.variant:.3g}" if isinstance(self.variant, float) else str(self.variant)
        scores = (self.temperature, self.risk, self.score)
        return Member(self.candidate.name, label, weight, *scores, model, seconds)


def judge(candidate: Candidate, samples: Samples, seed: int, metric: str = LOG_LOSS) -> Judged:
    """Select the variant with the best score over held-out domains, all domains weighted equally.

    The score is the loss of the criterion, or of classes `metric` if it is another.  Ties, common
    for scores such as accuracy, go to the variant with the lower loss.
    """
    started = time.perf_counter()
    folds = held_out_folds(samples, MOST_FOLDS, seed)
    criterion = criterion_of(samples)
    with one_thread_each():
        held_out = candidate.held_out(samples, folds, seed)

    def scored(variant: Any, predicted: np.ndarray) -> tuple[float, float, Judged]:
        temperature = criterion.temperature(predicted, samples)
        calibrated = criterion.calibrated(predicted, temperature)
        risk, score = held_out_scores(calibrated, samples)
        asked = risk
        if metric != LOG_LOSS and samples.classes:  # numbers are scored by their loss only
            asked = mean_loss(metric, calibrated, samples)
        seconds = time.perf_counter() - started
        judged = Judged(candidate, variant, temperature, calibrated, risk, score, seconds)
        return asked, risk, judged

    return min(map(scored, candidate.variants, held_out), key=lambda result: result[:2])[2]


def single(candidate: Candidate, samples: Samples, seed: int) -> Ensemble:
    """Return an ensemble with one member: the best variant, fitted to all samples."""
    judged = judge(candidate, samples, seed)
    member = judged.fitted(samples, seed)
    return Ensemble((member,), samples.classes, held_out=judged.predicted)
