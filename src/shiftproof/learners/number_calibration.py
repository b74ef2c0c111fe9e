"""Calibration of predicted numbers: slope and intercept.

The slope b is that of the least-squares fit y = a + b ŷ.  Below 1, predictions are too extreme:
high ones are too high and low ones too low.  The intercept (calibration in the large) is the mean
of y − ŷ, in the label's unit: above 0, labels are higher than predicted.  The sampling variance of
the slope is that of the sandwich estimator with leave-one-out residuals (HC3; MacKinnon and White,
1985), because errors may be heteroscedastic.
"""

from __future__ import annotations

import numpy as np

from shiftproof.learners.calibration_scores import Fitted


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
