"""A candidate on rows standardised within their domains.

Held-out domains judge it next to the same candidate on unstandardised rows.  The unlabelled rows of
the held-out domain give its mean and spread, as the rows of a new site do.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from shiftproof.core.standardize import DOMAIN, adaptation_title
from shiftproof.learners.candidate import Candidate, Size
from shiftproof.learners.samples import Samples


class WithinDomains(Candidate):
    """Another candidate, on the second view of the samples (`Samples.within_domains`)."""

    view = DOMAIN

    def __init__(self, candidate: Candidate) -> None:
        self.candidate = candidate
        self.name = adaptation_title(candidate.name, DOMAIN)
        self.variants: Sequence[Any] = candidate.variants

    def predictions(self, train: Samples, x: np.ndarray, seed: int) -> np.ndarray:
        """Return the candidate's predictions for rows ``x`` standardised within their domain."""
        return self.candidate.predictions(train.within_domains(), x, seed)

    def seconds(self, size: Size) -> float:
        """Return how long the candidate takes."""
        return self.candidate.seconds(size)

    def limited(self, threads: int) -> AbstractContextManager[None]:
        """Limit the candidate."""
        return self.candidate.limited(threads)

    def seconds_to_judge(self, size: Size, folds: int) -> float:
        """Return how long the candidate takes."""
        return self.candidate.seconds_to_judge(size, folds)

    def fit(self, train: Samples, variant: Any, seed: int) -> Any:
        """Fit the candidate."""
        return self.candidate.fit(train.within_domains(), variant, seed)

    def held_out(self, samples: Samples, folds: np.ndarray, seed: int) -> np.ndarray:
        """Return the candidate's predictions."""
        return self.candidate.held_out(samples.within_domains(), folds, seed)
