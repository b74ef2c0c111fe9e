"""How predictions for held-out domains are calibrated, judged and weighed: for classes and numbers.

Everything that learners fitted at once do with predictions of held-out domains (choose settings,
stack members) asks the criterion of their samples, and none asks whether they are classes.
Predictions are [n, k]: probabilities of k classes, or k numbers, in standard units.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from shiftproof.core.errors import InvalidValue
from shiftproof.core.types import CROSS_ENTROPY, SQUARED
from shiftproof.learners.calibration import calibrated_risk, fit_temperature, tempered
from shiftproof.learners.number_scores import mean_r2
from shiftproof.learners.number_stacking import number_weights
from shiftproof.learners.samples import Samples
from shiftproof.learners.stacking import Weights, stacking_weights

ABSOLUTE = "absolute"


class Criterion(ABC):
    """The rules of one loss."""

    # What the score of a member beside its risk is called.
    score: str

    @abstractmethod
    def temperature(self, predicted: np.ndarray, samples: Samples) -> float:
        """Return the temperature that calibrates predictions [n, k] of held-out domains."""

    @abstractmethod
    def calibrated(self, predicted: np.ndarray, temperature: float) -> np.ndarray:
        """Return predictions [n, k] at a temperature."""

    @abstractmethod
    def losses(self, predicted: np.ndarray, samples: Samples) -> np.ndarray:
        """Return the loss of each row, [n]."""

    @abstractmethod
    def scores(self, predicted: np.ndarray, samples: Samples) -> list[float]:
        """Return the score of each domain; NaN where it is undefined."""

    @abstractmethod
    def weights(
        self, predicted: np.ndarray, samples: Samples, seed: int, draws: int = 100
    ) -> Weights:
        """Return the weights of members by their predictions [m, n, k] of held-out domains."""

    @abstractmethod
    def calibrated_risk(self, predicted: np.ndarray, samples: Samples) -> float:
        """Return the mean loss at the best temperature, every domain counted alike."""


class LogLoss(Criterion):
    """The criterion of classes."""

    score = "accuracy"

    def temperature(self, predicted: np.ndarray, samples: Samples) -> float:
        """Return the temperature of least log loss."""
        return fit_temperature(predicted, samples.y, samples.balanced())

    def calibrated(self, predicted: np.ndarray, temperature: float) -> np.ndarray:
        """Return p^(1/T), normalised."""
        return tempered(predicted, temperature)

    def losses(self, predicted: np.ndarray, samples: Samples) -> np.ndarray:
        """Return −log p(label)."""
        chances: np.ndarray = -np.log(predicted[np.arange(len(samples)), samples.y])
        return chances

    def scores(self, predicted: np.ndarray, samples: Samples) -> list[float]:
        """Return the accuracies."""
        right = predicted.argmax(axis=1) == samples.y
        return [float(right[rows].mean()) for rows in samples.rows_by_domain()]

    def weights(
        self, predicted: np.ndarray, samples: Samples, seed: int, draws: int = 100
    ) -> Weights:
        """Return the weights of least log loss."""
        own = predicted[:, np.arange(len(samples)), samples.y]
        return stacking_weights(own, samples.domain, seed, draws, samples.weight)

    def calibrated_risk(self, predicted: np.ndarray, samples: Samples) -> float:
        """Return the log loss at the best temperature."""
        return calibrated_risk(predicted, samples.y, samples.balanced())


class NumberLoss(Criterion):
    """The criterion of numbers: half the squared error, or the absolute error.

    Of several targets it is the mean over them, each in its standard units.  Numbers have no
    temperature.
    """

    score = "r2"

    def __init__(self, loss: str) -> None:
        if loss not in (SQUARED, ABSOLUTE):
            raise InvalidValue(
                f"`loss={loss!r}` is for networks; this algorithm needs {SQUARED} or {ABSOLUTE}"
            )
        self.absolute = loss == ABSOLUTE

    def temperature(self, predicted: np.ndarray, samples: Samples) -> float:
        """Return 1."""
        return 1.0

    def calibrated(self, predicted: np.ndarray, temperature: float) -> np.ndarray:
        """Return the predictions."""
        return predicted

    def losses(self, predicted: np.ndarray, samples: Samples) -> np.ndarray:
        """Return e² / 2, or |e|."""
        errors = predicted - samples.targets
        losses = np.abs(errors) if self.absolute else np.square(errors) / 2
        mean: np.ndarray = losses.mean(axis=1)
        return mean

    def scores(self, predicted: np.ndarray, samples: Samples) -> list[float]:
        """Return R², the mean over targets."""
        return [
            np.nan if (found := mean_r2(predicted[rows], samples.targets[rows])) is None else found
            for rows in samples.rows_by_domain()
        ]

    def weights(
        self, predicted: np.ndarray, samples: Samples, seed: int, draws: int = 100
    ) -> Weights:
        """Return the weights of least loss."""
        # A row of k targets counts as k rows of its domain.
        errors = (predicted - samples.targets).reshape(len(predicted), -1)
        rows = np.repeat(np.arange(len(samples)), samples.outputs)
        return number_weights(
            errors,
            samples.domain[rows],
            seed,
            draws,
            absolute=self.absolute,
            weight=None if samples.weight is None else samples.weight[rows],
        )

    def calibrated_risk(self, predicted: np.ndarray, samples: Samples) -> float:
        """Return the mean loss."""
        return float(samples.balanced() @ self.losses(predicted, samples))


def criterion_of(samples: Samples) -> Criterion:
    """Return the criterion of samples."""
    return LogLoss() if samples.loss == CROSS_ENTROPY else NumberLoss(samples.loss)
