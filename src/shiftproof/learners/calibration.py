"""Temperature scaling: one parameter that corrects over- or underconfident probabilities."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar  # type: ignore[import-untyped]
from scipy.special import log_softmax  # type: ignore[import-untyped]

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

    found = minimize_scalar(risk, bounds=(-WIDEST, WIDEST), method="bounded")
    return float(np.exp(-found.x))


def calibrated_risk(predicted: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
    """Return the weighted log loss at the best temperature."""
    temperature = fit_temperature(predicted, y, weights)
    return -float(weights @ _log_tempered(predicted, temperature)[np.arange(len(y)), y])


def _log_tempered(predicted: np.ndarray, temperature: float) -> np.ndarray:
    logs: np.ndarray = log_softmax(np.log(np.maximum(predicted, SMALLEST)) / temperature, axis=1)
    return logs
