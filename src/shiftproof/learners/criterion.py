"""How held-out predictions are calibrated and scored, for classes and numbers.

Exact learners select settings by the criterion of their samples, so they need no
separate code for classification and regression.  Predictions are [n, k]: probabilities of k
classes, or numbers in standard units with k = 1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from shiftproof.core.errors import InvalidValue
from shiftproof.core.types import CROSS_ENTROPY, SQUARED
from shiftproof.learners.samples import Samples
from shiftproof.metrics import NumberOutputs
from shiftproof.metrics.regression import r2

# Probabilities are clipped to this: log 0 is infinite, and one confident error must not dominate
# the loss.
SMALLEST = 1e-6
# Temperatures range from 1/e³ to e³: beyond, predictions are nearly certain or nearly uniform.
WIDEST = 3.0


def tempered(predicted: np.ndarray, temperature: float) -> np.ndarray:
    """Return p^(1/T), normalised: probabilities [n, c] → [n, c].

    >>> tempered(np.array([[0.8, 0.2]]), 2.0).round(3).tolist()
    [[0.667, 0.333]]
    """
    changed: np.ndarray = np.exp(_log_tempered(predicted, temperature))
    return changed


def fit_temperature(predicted: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
    """Return the temperature with the lowest weighted log loss (Guo et al., 2017).

    ``predicted`` [n, c] should be for rows that the model was not trained on, ``y`` [n] are their
    classes and ``weights`` [n] their weights.  The loss is convex in 1/T.
    """
    rows = np.arange(len(y))

    def risk(log_inverse: float) -> float:
        return -float(weights @ _log_tempered(predicted, np.exp(-log_inverse))[rows, y])

    optimum = minimize_scalar(risk, bounds=(-WIDEST, WIDEST), method="bounded")
    return float(np.exp(-optimum.x))


def calibrated_risk(predicted: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
    """Return the weighted log loss at the best temperature."""
    temperature = fit_temperature(predicted, y, weights)
    return -float(weights @ _log_tempered(predicted, temperature)[np.arange(len(y)), y])


def _log_tempered(predicted: np.ndarray, temperature: float) -> np.ndarray:
    logs: np.ndarray = log_softmax(np.log(np.maximum(predicted, SMALLEST)) / temperature, axis=1)
    return logs


ABSOLUTE = "absolute"
# Absolute errors below this, in standard units, count as squares where a gradient is needed.
SMOOTHED = 1e-3

# Returns a loss and its gradient.
Loss = Callable[[np.ndarray], tuple[float, np.ndarray]]


class LogLoss:
    """The criterion for classification."""

    def temperature(self, predicted: np.ndarray, samples: Samples) -> float:
        """Return the temperature with the lowest log loss of held-out predictions [n, k]."""
        return fit_temperature(predicted, samples.y, samples.balanced())

    def calibrated(self, predicted: np.ndarray, temperature: float) -> np.ndarray:
        """Return p^(1/T), normalised."""
        return tempered(predicted, temperature)

    def losses(self, predicted: np.ndarray, samples: Samples) -> np.ndarray:
        """Return −log p(label) of each row, [n]."""
        chances: np.ndarray = -np.log(predicted[np.arange(len(samples)), samples.y])
        return chances

    def scores(self, predicted: np.ndarray, samples: Samples) -> list[float]:
        """Return the accuracy of each domain."""
        right = predicted.argmax(axis=1) == samples.y
        return [float(right[rows].mean()) for rows in samples.rows_by_domain()]

    def mixture_loss(self, predicted: np.ndarray, samples: Samples) -> Loss:
        """Return the mean loss of mixtures of members as a function of their weights.

        ``predicted`` [m, n, k] are the held-out predictions of the members.  All domains have equal
        weight.  The function also returns the gradient, [m].
        """
        chances = np.maximum(predicted[:, np.arange(len(samples)), samples.y], SMALLEST)
        shares = samples.balanced()

        def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
            mixture = np.maximum(weights @ chances, SMALLEST)
            return -float(shares @ np.log(mixture)), -chances @ (shares / mixture)

        return loss


class NumberLoss:
    """The criterion for regression: half the squared error, or the absolute error.

    Regression has no temperature.
    """

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
        """Return the predictions unchanged."""
        return predicted

    def losses(self, predicted: np.ndarray, samples: Samples) -> np.ndarray:
        """Return e² / 2, or |e|, of each row, [n]."""
        errors = predicted[:, 0] - samples.y
        losses: np.ndarray = np.abs(errors) if self.absolute else np.square(errors) / 2
        return losses

    def scores(self, predicted: np.ndarray, samples: Samples) -> list[float]:
        """Return R² of each domain; NaN where it is undefined."""
        by_domain = (
            r2(NumberOutputs(predicted[rows, 0], samples.y[rows]))
            for rows in samples.rows_by_domain()
        )
        return [np.nan if value is None else value for value in by_domain]

    def mixture_loss(self, predicted: np.ndarray, samples: Samples) -> Loss:
        """Return the mean loss of mixtures; |e| is smoothed at 0."""
        errors, shares = predicted[:, :, 0] - samples.y, samples.balanced()

        def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
            error = weights @ errors
            if not self.absolute:
                return float(shares @ np.square(error)) / 2, errors @ (shares * error)
            size = np.hypot(error, SMOOTHED)
            return float(shares @ size), errors @ (shares * error / size)

        return loss


Criterion = LogLoss | NumberLoss


def criterion_of(samples: Samples) -> Criterion:
    """Return the criterion for the samples' loss."""
    return LogLoss() if samples.loss == CROSS_ENTROPY else NumberLoss(samples.loss)
