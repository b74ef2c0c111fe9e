"""Regression scores of a report card: predicted numbers against labels.

With errors eᵢ = ŷᵢ − yᵢ of n rows and ȳ the mean of their labels,

    MAE = (1/n) Σ |eᵢ|,   RMSE = √((1/n) Σ eᵢ²),   R² = 1 − Σ eᵢ² / Σ (yᵢ − ȳ)².

R² is 0 for predicting the mean of the scored rows, and negative for anything worse: predicting the
training mean has a negative R² on a domain with another mean.  A score is None where it is
undefined, such as R² where all labels are equal.

The slope b is that of the least-squares fit y = a + b ŷ.  Below 1, predictions are too extreme:
high ones are too high and low ones too low.  The intercept (calibration in the large) is the mean
of y − ŷ, in the label's unit: above 0, labels are higher than predicted.  The sampling variance of
the slope is that of the sandwich estimator with leave-one-out residuals (HC3; MacKinnon and White,
1985), because errors may be heteroscedastic.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shiftproof.core.errors import InvalidValue, nearest
from shiftproof.learners.calibration_scores import Fitted

NumberScore = Callable[[np.ndarray, np.ndarray], float | None]


def number_scores(predicted: np.ndarray, labels: np.ndarray) -> dict[str, float | None]:
    """Return the scores of predicted numbers [n] for labels [n], by name.

    >>> found = number_scores(np.array([1.0, 2.0, 5.0]), np.array([1.0, 3.0, 5.0]))
    >>> {name: round(found[name], 3) for name in NUMBER_SCORES}
    {'r2': 0.875, 'mae': 0.333, 'rmse': 0.577}
    """
    return {name: score(predicted, labels) for name, score in NUMBER_CARD.items()}


def checked_number_metric(name: str) -> str:
    """Return the name of a regression score; raise InvalidValue for any other."""
    if name not in NUMBER_SCORES:
        raise InvalidValue(
            f"`metric` {name!r} is unknown for regression; {nearest(name, NUMBER_SCORES)}"
        )
    return name


def r2(predicted: np.ndarray, labels: np.ndarray) -> float | None:
    """Return the share of the labels' variance explained; None if all labels are equal."""
    total = float(np.square(labels - labels.mean()).sum())
    if total == 0:
        return None
    return 1 - float(np.square(predicted - labels).sum()) / total


def mae(predicted: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean absolute error."""
    return float(np.abs(predicted - labels).mean())


def rmse(predicted: np.ndarray, labels: np.ndarray) -> float:
    """Return the root of the mean squared error."""
    return float(np.sqrt(np.square(predicted - labels).mean()))


def number_slope(predicted: np.ndarray, labels: np.ndarray) -> float | None:
    """Return the calibration slope; None if all predictions are equal."""
    found = fitted_number_slope(predicted, labels)
    return None if found is None else found.value


def number_intercept(predicted: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean of labels minus predictions."""
    return float((labels - predicted).mean())


def fitted_number_slope(predicted: np.ndarray, labels: np.ndarray) -> Fitted | None:
    """Return the calibration slope with its sampling variance.

    >>> fitted_number_slope(np.arange(4.0), 2 * np.arange(4.0) + 1).value
    2.0
    """
    n = len(labels)
    centred = predicted - predicted.mean()
    total = float(centred @ centred)
    if n < 3 or total <= 1e-24 * n * max(float(np.square(predicted).max()), 1e-300):
        return None
    slope = float(centred @ labels) / total
    leverage = 1 / n + centred**2 / total
    rest = (labels - labels.mean() - slope * centred) / np.maximum(1 - leverage, 1e-9)
    return Fitted(slope, float(np.square(centred * rest).sum()) / total**2)


def fitted_number_intercept(predicted: np.ndarray, labels: np.ndarray) -> Fitted | None:
    """Return the mean of labels minus predictions, with its sampling variance."""
    errors = labels - predicted
    if len(errors) < 2:
        return None
    return Fitted(float(errors.mean()), float(errors.var(ddof=1)) / len(errors))


# Scores for model selection, and all scores of a report card.
NUMBER_SCORES: dict[str, NumberScore] = {"r2": r2, "mae": mae, "rmse": rmse}
NUMBER_CARD: dict[str, NumberScore] = {
    **NUMBER_SCORES,
    "calibration_slope": number_slope,
    "calibration_intercept": number_intercept,
}
