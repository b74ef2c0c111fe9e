"""Candidates judged by domains that were held out of their training."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftproof.learners.calibration import fit_temperature, tempered
from shiftproof.learners.candidate import Candidate, size_of
from shiftproof.learners.ensemble import Ensemble, Member
from shiftproof.learners.samples import Samples, held_out_folds
from shiftproof.learners.threads import threads_for
from shiftproof.learners.weighting import LOG_LOSS, mean_badness

# Models fitted to judge one candidate, at most: with more domains, some are held out together.
MOST_FOLDS = 5


@dataclass(frozen=True)
class HeldOut:
    """How well predictions do on held-out domains: means over domains, each counted alike.

    ``log_loss`` has the standard error ``spread`` of a mean over the domains.
    """

    log_loss: float
    spread: float
    accuracy: float


def held_out_scores(predicted: np.ndarray, samples: Samples) -> HeldOut:
    """Score predictions [n, classes], each by a model not trained on the row's domain."""
    names, place, counts = np.unique(samples.domain, return_inverse=True, return_counts=True)
    losses = -np.log(predicted[np.arange(len(samples)), samples.y])
    by_domain = np.bincount(place, losses) / counts
    right = np.bincount(place, predicted.argmax(axis=1) == samples.y) / counts
    spread = by_domain.std(ddof=1) / np.sqrt(len(names)) if len(names) > 1 else np.nan
    return HeldOut(float(by_domain.mean()), float(spread), float(right.mean()))


@dataclass(frozen=True)
class Judged:
    """A candidate with its best variant, and how well that does on held-out domains.

    ``predicted`` [n, classes] are calibrated probabilities, each by a model that was not trained
    on the row's domain.
    """

    candidate: Candidate
    variant: Any
    temperature: float
    predicted: np.ndarray
    scores: HeldOut
    seconds: float

    def fitted(self, samples: Samples, seed: int, weight: float, spread: float = 0.0) -> Member:
        """Return a member fitted to all samples; it is not fitted if it has no weight."""
        started = time.perf_counter()
        model = None
        if weight > 0:
            with threads_for(self.candidate.seconds(size_of(samples))):
                model = self.candidate.fit(samples, self.variant, seed)
        seconds = self.seconds + time.perf_counter() - started
        label = f"{self.variant:.3g}" if isinstance(self.variant, float) else str(self.variant)
        return Member(
            self.candidate.name,
            label,
            weight,
            spread,
            self.temperature,
            self.scores.log_loss,
            self.scores.accuracy,
            model,
            seconds,
            self.candidate.view,
        )


def judge(candidate: Candidate, samples: Samples, seed: int, metric: str = LOG_LOSS) -> Judged:
    """Choose the variant that is best by a score over held-out domains, each counted alike.

    Of variants that are equally good, the one with the lower log loss is chosen: scores such as the
    accuracy take few values.
    """
    started = time.perf_counter()
    folds = held_out_folds(samples, MOST_FOLDS, seed)
    weights = samples.balanced()
    best: Judged | None = None
    least = (np.inf, np.inf)
    with threads_for(candidate.seconds(size_of(samples))):
        held_out = candidate.held_out(samples, folds, seed)
    for variant, predicted in zip(candidate.variants, held_out, strict=True):
        temperature = fit_temperature(predicted, samples.y, weights)
        calibrated = tempered(predicted, temperature)
        scores = held_out_scores(calibrated, samples)
        asked = scores.log_loss
        if metric != LOG_LOSS:
            asked = mean_badness(metric, calibrated, samples)
        if best is None or (asked, scores.log_loss) < least:
            least = (asked, scores.log_loss)
            seconds = time.perf_counter() - started
            best = Judged(candidate, variant, temperature, calibrated, scores, seconds)
    if best is None:
        raise ValueError(f"{candidate.name} has no variants")
    return best


def single(judged: Judged, samples: Samples, seed: int) -> Ensemble:
    """Return an ensemble of one: the candidate fitted to all samples."""
    member = judged.fitted(samples, seed, 1.0)
    return Ensemble((member,), samples.classes, held_out=judged.predicted)
