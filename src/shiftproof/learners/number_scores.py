"""Regression scores of a report card: predicted numbers against labels.

With errors eᵢ = ŷᵢ − yᵢ of n rows and ȳ the mean of their labels,

    MAE = (1/n) Σ |eᵢ|,   RMSE = √((1/n) Σ eᵢ²),   R² = 1 − Σ eᵢ² / Σ (yᵢ − ȳ)².

R² is 0 for predicting the mean of the scored rows, and negative for anything worse: predicting the
training mean has a negative R² on a domain with another mean.  A score is None where it is
undefined, such as R² where all labels are equal.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shiftproof.core.errors import InvalidValue, nearest
from shiftproof.learners.number_calibration import number_intercept, number_slope

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


def mean_r2(predicted: np.ndarray, labels: np.ndarray) -> float | None:
    """Return the mean R² over targets, for numbers [n, targets]; None if none is defined."""
    found = [r2(*own) for own in zip(predicted.T, labels.T, strict=True)]
    defined = [value for value in found if value is not None]
    return float(np.mean(defined)) if defined else None


def mae(predicted: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean absolute error."""
    return float(np.abs(predicted - labels).mean())


def rmse(predicted: np.ndarray, labels: np.ndarray) -> float:
    """Return the root of the mean squared error."""
    return float(np.sqrt(np.square(predicted - labels).mean()))


# Scores for model selection, and all scores of a report card.
NUMBER_SCORES: dict[str, NumberScore] = {"r2": r2, "mae": mae, "rmse": rmse}
NUMBER_CARD: dict[str, NumberScore] = {
    **NUMBER_SCORES,
    "calibration_slope": number_slope,
    "calibration_intercept": number_intercept,
}
