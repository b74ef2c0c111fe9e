"""Candidates judged by domains that were held out of their training."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftproof.learners.calibration import fit_temperature, tempered
from shiftproof.learners.candidate import Candidate
from shiftproof.learners.ensemble import Ensemble, Member
from shiftproof.learners.samples import Samples, held_out_folds

# Models fitted to judge one candidate, at most: with more domains, some are held out together.
MOST_FOLDS = 5


@dataclass(frozen=True)
class Judged:
    """A candidate with its best variant, and how well that does on held-out domains.

    ``chances`` [n] are the calibrated probabilities of the true classes, each by a model that was
    not trained on the row's domain, and ``risk`` the mean over domains of their log loss.
    """

    candidate: Candidate
    variant: Any
    temperature: float
    chances: np.ndarray
    risk: float
    seconds: float

    def fitted(self, samples: Samples, seed: int, weight: float) -> Member:
        """Return a member fitted to all samples."""
        started = time.perf_counter()
        model = self.candidate.fit(samples, self.variant, seed)
        seconds = self.seconds + time.perf_counter() - started
        label = f"{self.variant:.3g}" if isinstance(self.variant, float) else str(self.variant)
        return Member(
            self.candidate.name, label, weight, self.temperature, self.risk, seconds, model
        )


def judge(candidate: Candidate, samples: Samples, seed: int) -> Judged:
    """Choose the variant with the lowest log loss over held-out domains, each counted alike."""
    started = time.perf_counter()
    folds = held_out_folds(samples, MOST_FOLDS, seed)
    predicted = candidate.held_out(samples, folds, seed)
    weights = samples.balanced()
    found = []
    for variant, chance in zip(candidate.variants, predicted, strict=True):
        temperature = fit_temperature(chance, samples.y, weights)
        own = tempered(chance, temperature)[np.arange(len(samples)), samples.y]
        found.append((-float(weights @ np.log(own)), temperature, own, variant))
    risk, temperature, own, variant = min(found, key=lambda item: item[0])
    seconds = time.perf_counter() - started
    return Judged(candidate, variant, temperature, own, risk, seconds)


def single(judged: Judged, samples: Samples, seed: int) -> Ensemble:
    """Return an ensemble of one: the candidate fitted to all samples."""
    return Ensemble((judged.fitted(samples, seed, 1.0),), samples.classes)
