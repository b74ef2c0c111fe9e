"""Updates of a model with labelled rows of a new site, evaluated by cross-validation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftproof.core.errors import DataError
from shiftproof.inference.adaptation.updates import SMALLEST, Step, Update, closed_test

# Fewest rows for an update, and number of cross-validation folds.
FEWEST_ROWS, FOLDS = 20, 10
NORMAL = 1.96


@dataclass(frozen=True)
class Recalibration:
    """The update that the rows of a new site support, and its effect.

    ``steps`` are the tests of the closed procedure; ``revisable`` is whether there were enough rows
    for a revision.  ``before`` and ``after`` are the accuracy and log loss on the labelled rows;
    ``after`` is cross-validated, repeating the whole procedure without the held-out rows.
    ``change`` gives the differences with 95% confidence intervals.
    """

    update: Update
    steps: tuple[Step, ...]
    rows: int
    revisable: bool
    before: dict[str, float]
    after: dict[str, float]
    change: dict[str, tuple[float, float, float]]

    @property
    def method(self) -> str:
        """The method of the update: original, intercept, slope or revision."""
        return self.update.method

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "method": self.method,
            "rows": self.rows,
            "revision_considered": self.revisable,
            "tests": [vars(step) for step in self.steps],
            "before": self.before,
            "after": self.after,
            "change": {name: list(values) for name, values in self.change.items()},
        }


def recalibrated(
    probabilities: np.ndarray, features: np.ndarray | None, y: np.ndarray, seed: int = 0
) -> Recalibration:
    """Return the update supported by labelled rows of a new site, evaluated by cross-validation."""
    n = len(y)
    if n < FEWEST_ROWS:
        raise DataError(
            f"{n} labelled rows are too few to update a model; {FEWEST_ROWS} are needed"
        )
    if len(np.unique(y)) < 2:
        raise DataError("all labelled rows have the same class; an update needs rows of two")
    update, steps, revisable = closed_test(probabilities, features, y)
    fold = np.random.default_rng(seed).permutation(np.arange(n) % FOLDS)
    after = np.empty_like(probabilities)
    for number in range(FOLDS):
        rest, own = fold != number, fold == number
        known = None if features is None else features[rest]
        fitted = closed_test(probabilities[rest], known, y[rest])[0]
        after[own] = fitted.applied(probabilities[own], None if features is None else features[own])
    scores = [_row_scores(p, y) for p in (probabilities, after)]
    change = {}
    for name in scores[0]:
        difference = scores[1][name] - scores[0][name]
        mean, half = float(difference.mean()), NORMAL * float(difference.std(ddof=1) / np.sqrt(n))
        change[name] = (mean, mean - half, mean + half)
    before, later = ({name: float(v.mean()) for name, v in own.items()} for own in scores)
    return Recalibration(update, steps, n, revisable, before, later, change)


def _row_scores(probabilities: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    own = np.maximum(probabilities[np.arange(len(y)), y], SMALLEST)
    return {
        "accuracy": (probabilities.argmax(axis=1) == y).astype(float),
        "log_loss": -np.log(own),
    }
