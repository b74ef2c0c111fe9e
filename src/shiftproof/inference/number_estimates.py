"""Estimates of regression scores on one domain, the counterpart of `estimates` for numbers.

| score | additive scale | sampling variance on that scale |
|---|---|---|
| MAE | logarithm | var(abs(e)) / (n MAE²) |
| RMSE | logarithm | var(e²) / (4 n MSE²) |
| R² | −log(1 − R²) | var(e²/MSE − (y − ȳ)²/V) / n, with V the variance of the labels |
| calibration slope | plain | the sandwich (`learners.number_scores`) |
| calibration intercept | plain | var(e) / n |
| interval coverage | log odds | the variance of a proportion |

R² has no lower bound, and 1 − R² = MSE/V is a ratio: its logarithm has nearly normal errors.  The
variances come from the delta method.  Scores of perfect predictions have no logarithm and are None.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtri  # type: ignore[import-untyped]

from shiftproof.inference.estimates import LEVEL, Estimate, log_variance, scale_of
from shiftproof.learners.number_scores import (
    NUMBER_CARD,
    fitted_number_intercept,
    fitted_number_slope,
)

# The additive value of a score and its variance, from predicted numbers [n] and labels [n].
Additive = Callable[[np.ndarray, np.ndarray], tuple[float, float] | None]


def number_estimate(
    name: str, predicted: np.ndarray, labels: np.ndarray, level: float = LEVEL
) -> Estimate | None:
    """Return a score with its confidence interval; None if undefined or without sampling error.

    >>> found = number_estimate("mae", np.zeros(4), np.array([1.0, -1.0, 3.0, -3.0]))
    >>> round(found.low, 2), found.value, round(found.high, 2)
    (1.14, 2.0, 3.52)
    """
    value = NUMBER_CARD[name](predicted, labels)
    found = _ADDITIVE[name](predicted, labels) if len(labels) > 2 else None
    if value is None or found is None:
        return None
    additive, variance = found
    reach = float(ndtri((1 + level) / 2)) * variance**0.5
    low, high = (scale_of(name).back(additive + sign * reach) for sign in (-1, 1))
    return Estimate(value, low, high, additive, variance)


def _mae(predicted: np.ndarray, labels: np.ndarray) -> tuple[float, float] | None:
    return _logarithm(np.abs(predicted - labels))


def _rmse(predicted: np.ndarray, labels: np.ndarray) -> tuple[float, float] | None:
    if (found := _logarithm(np.square(predicted - labels))) is None:
        return None
    return found[0] / 2, found[1] / 4


def _r2(predicted: np.ndarray, labels: np.ndarray) -> tuple[float, float] | None:
    squares, around = np.square(predicted - labels), np.square(labels - labels.mean())
    mse, spread = float(squares.mean()), float(around.mean())
    if not (mse > 0 and spread > 0):
        return None
    influence = squares / mse - around / spread
    variance = float(influence.var(ddof=1)) / len(labels)
    return (float(np.log(spread / mse)), variance) if variance > 0 else None


def _logarithm(losses: np.ndarray) -> tuple[float, float] | None:
    """Return the logarithm of a mean loss, and its variance, set to 1/n for n equal losses."""
    mean = float(losses.mean())
    return (float(np.log(mean)), log_variance(losses)) if mean > 0 else None


def _slope(predicted: np.ndarray, labels: np.ndarray) -> tuple[float, float] | None:
    found = fitted_number_slope(predicted, labels)
    return None if found is None or not found.variance > 0 else (found.value, found.variance)


def _intercept(predicted: np.ndarray, labels: np.ndarray) -> tuple[float, float] | None:
    found = fitted_number_intercept(predicted, labels)
    return None if found is None or not found.variance > 0 else (found.value, found.variance)


_ADDITIVE: dict[str, Additive] = {
    "r2": _r2,
    "mae": _mae,
    "rmse": _rmse,
    "calibration_slope": _slope,
    "calibration_intercept": _intercept,
}
