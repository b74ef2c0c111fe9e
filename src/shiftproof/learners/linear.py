"""Linear models, solved exactly for a whole path of penalties (on features: a linear probe).

The models are logistic regression for classes (`learners.logistic`) and ridge regression for
numbers (`learners.ridge`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from shiftproof.core.space import Float, hparam
from shiftproof.data.base import Progress, silent
from shiftproof.learners.base import ALGORITHMS
from shiftproof.learners.candidate import OPERATIONS_A_SECOND, Candidate, Size, single
from shiftproof.learners.criterion import calibrated_risk
from shiftproof.learners.encoding import encoded
from shiftproof.learners.ensemble import Ensemble
from shiftproof.learners.exact import Exact
from shiftproof.learners.logistic import (
    LinearPath,
    logistic_path,
    logistic_solutions,
    probabilities,
)
from shiftproof.learners.ridge import ridge_path, ridge_paths
from shiftproof.learners.samples import Samples
from shiftproof.learners.table_models import LinearModel

PATIENCE = 3
# From a negligible penalty to one that leaves little but the class shares, for columns of
# variance 1.
PATH = tuple(float(alpha) for alpha in np.geomspace(1e-5, 10, 20))


@dataclass(frozen=True)
class LinearCandidate(Candidate):
    """A linear model on the columns, or on their ``ranks``; the variants are penalties α."""

    family = "linear"
    name: str = "linear"
    variants: Sequence[float] = PATH
    balance_domains: bool = False
    ranks: bool = False

    def predictions(self, train: Samples, x: np.ndarray, seed: int) -> np.ndarray:
        """Fit the path to ``train`` and predict ``x``."""
        encoder, fitted = encoded(train, ranks=self.ranks)
        outputs = self._path(fitted, train, self.variants).predict(encoder.transform(x))
        return np.stack([probabilities(logits) for logits in outputs]) if train.classes else outputs

    def seconds(self, size: Size) -> float:
        """Estimate the time: about 40 products with the data, and back, for each penalty."""
        rows, columns, outputs = size
        return 40 * len(self.variants) * 4 * rows * columns * outputs / OPERATIONS_A_SECOND

    def held_out(self, samples: Samples, folds: np.ndarray, seed: int) -> np.ndarray:
        """Predict all folds from one path, where each row of sample weights leaves out one fold.

        Columns are scaled once, on all rows, because the penalty is evaluated, not the scale.  The
        path stops once `PATIENCE` weaker penalties in a row did worse; even weaker ones, which take
        the longest, get the last predictions.
        """
        _, rows = encoded(samples, ranks=self.ranks)
        names = np.unique(folds)
        predicted = np.empty((len(self.variants), len(samples), samples.outputs))
        if not samples.classes:
            weights = self._weights(samples)
            paths = ridge_paths(rows, samples.y[:, None], weights, folds, self.variants)
            for fold in names:
                predicted[:, folds == fold] = paths[int(fold)].predict(rows[folds == fold])
            return predicted
        weights = np.stack([np.where(folds != fold, 1.0, 0.0) for fold in names])
        weights = weights * self._weights(samples)
        shares = samples.balanced()
        risks: list[float] = []
        # A smaller tolerance would hardly change the predictions.
        solutions = logistic_solutions(
            rows, samples.y, samples.classes, weights, self.variants, tolerance=1e-5
        )
        for variant, (coefficients, intercepts) in solutions:
            for position, fold in enumerate(names):
                held = folds == fold
                logits = rows[held] @ coefficients[position].T + intercepts[position]
                predicted[variant, held] = probabilities(logits)
            risks.append(calibrated_risk(predicted[variant], samples.y, shares))
            if len(risks) - 1 - int(np.argmin(risks)) >= PATIENCE:
                weaker = np.array(self.variants) < self.variants[variant]
                predicted[weaker] = predicted[variant]
                break
        return predicted

    def fit(self, train: Samples, variant: float, seed: int) -> LinearModel:
        """Return the fitted model."""
        encoder, rows = encoded(train, ranks=self.ranks)
        path = self._path(rows, train, [variant])
        return LinearModel(
            np.arange(train.classes), encoder, path.coefficients[0], path.intercepts[0]
        )

    def _path(self, x: np.ndarray, train: Samples, penalties: Sequence[float]) -> LinearPath:
        """Return the logits or numbers of all penalties, fitted to features [n, d]."""
        weights = self._weights(train)
        if not train.classes:
            return ridge_path(x, train.y[:, None], weights, penalties)
        path = logistic_path(x, train.y, train.classes, weights[None], penalties)
        return LinearPath(path.coefficients[:, 0], path.intercepts[:, 0])

    def _weights(self, train: Samples) -> np.ndarray:
        return train.balanced() if self.balance_domains else train.weights()


@ALGORITHMS.register("linear")
class Linear(Exact):
    """Logistic regression, or ridge regression for numbers, solved exactly.

    The penalty is the one with the lowest loss over held-out training domains, unless given.
    """

    paper = "Cox (1958); Hoerl and Kennard (1970)"

    @dataclass(frozen=True)
    class Hparams(Exact.Hparams):
        """The penalty and the weighting of domains."""

        penalty: float | Literal["auto"] = hparam(
            "auto",
            Float(-5, 1, base=10),
            within=(1e-12, 1e12),
            help="strength α of the quadratic penalty; auto chooses by held-out domains",
        )
        balance_domains: bool = hparam(
            False, help="give every domain the same total weight, however many rows it has"
        )

    hparams: Hparams

    def fitted(self, samples: Samples, seed: int, progress: Progress = silent) -> Ensemble:
        """Return the fitted model, calibrated on held-out domains."""
        penalty = self.hparams.penalty
        variants = PATH if penalty == "auto" else (float(penalty),)
        candidate = LinearCandidate("linear", variants, self.hparams.balance_domains)
        return single(candidate, samples, seed)
