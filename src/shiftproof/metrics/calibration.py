"""Calibration of probabilities and of predicted numbers: slope, intercept, expected error.

The calibration slope b is that of a logistic regression of the labels on the predicted log odds,
with an intercept: log odds(y) = a + b log odds(p).  Below 1, the probabilities are too extreme.
For several classes, it is the single b of softmax(a + b log p), with one intercept per class.  The
intercept (calibration in the large) is a with b = 1, for two classes: above 0, the second class
occurs more often than predicted.  The sampling variances are those of the sandwich estimator
H⁻¹ G H⁻¹, with the information H and the sum G of the rows' squared gradients, because the model
with b = 1 is misspecified if the probabilities are not calibrated.

For numbers, the slope is that of the least-squares fit y = a + b ŷ.  Below 1, predictions are too
extreme: high ones are too high and low ones too low.  The intercept is the mean of y − ŷ, in the
label's unit: above 0, labels are higher than predicted.  The sampling variance of the slope is that
of the sandwich estimator with leave-one-out residuals (HC3; MacKinnon and White, 1985), because
errors may be heteroscedastic.

References: Cox (1958), *Two further applications of a model for binary regression*; Van Calster et
al. (2019), *Calibration: the Achilles heel of predictive analytics*.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shiftproof.metrics.outputs import AnyOutputs, NumberOutputs, Outputs
from shiftproof.statistics.recalibration import Fitted, first_coefficient

# Probabilities are clipped to this before the logarithm, so that one certain error is not infinite.
SMALLEST = 1e-15
BINS = 10
Fit = Callable[[AnyOutputs], Fitted | None]


def value_of(fit: Fit) -> Callable[[AnyOutputs], float | None]:
    """Return the metric that is the value of a fit; None if it is undefined."""

    def score(outputs: AnyOutputs) -> float | None:
        fitted = fit(outputs)
        return None if fitted is None else fitted.value

    return score


def with_error(fit: Fit) -> Fit:
    """Return a fit that is None without a sampling error, for which numbers need three rows."""

    def additive(outputs: AnyOutputs) -> Fitted | None:
        few = isinstance(outputs, NumberOutputs) and len(outputs.labels) < 3
        fitted = fit(outputs)
        return None if fitted is None or few or not fitted.variance > 0 else fitted

    return additive


def fitted_slope(outputs: AnyOutputs) -> Fitted | None:
    """Return the calibration slope; None for separated classes or equal predictions.

    >>> fitted_slope(NumberOutputs(np.arange(4.0), 2 * np.arange(4.0) + 1)).value
    2.0
    """
    if isinstance(outputs, NumberOutputs):
        return _least_squares_slope(outputs.predicted, outputs.labels)
    present, codes = np.unique(outputs.labels, return_inverse=True)
    if len(present) == 1:
        return None
    likely = np.log(np.clip(outputs.probabilities[:, present], SMALLEST, 1))
    n, classes = likely.shape
    design = np.zeros((n, classes, classes))
    design[:, :, 0] = likely
    design[:, 1:, 1:] = np.eye(classes - 1)  # the first class has intercept 0
    return first_coefficient(design, np.zeros_like(likely), codes, np.eye(classes)[0])


def fitted_intercept(outputs: AnyOutputs) -> Fitted | None:
    """Return the calibration in the large; None for one class, or more than two."""
    labels = outputs.labels
    if isinstance(outputs, NumberOutputs):
        errors = labels - outputs.predicted
        variance = float(errors.var(ddof=1)) / len(errors) if len(errors) > 1 else 0.0
        return Fitted(float(errors.mean()), variance)
    if outputs.probabilities.shape[1] != 2 or len(np.unique(labels)) == 1:
        return None
    likely = np.log(np.clip(outputs.probabilities, SMALLEST, 1))
    design = np.tile(np.array([[0.0], [1.0]]), (len(labels), 1, 1))
    return first_coefficient(design, likely, labels, np.zeros(1))


def _least_squares_slope(predicted: np.ndarray, labels: np.ndarray) -> Fitted | None:
    n = len(labels)
    centred = predicted - predicted.mean()
    total = float(centred @ centred)
    if n < 3 or total <= 1e-24 * n * max(float(np.square(predicted).max()), 1e-300):
        return None
    slope = float(centred @ labels) / total
    leverage = 1 / n + centred**2 / total
    rest = (labels - labels.mean() - slope * centred) / np.maximum(1 - leverage, 1e-9)
    return Fitted(slope, float(np.square(centred * rest).sum()) / total**2)


def expected_error(outputs: Outputs) -> float:
    """Return the expected calibration error of the predicted class.

    It is the absolute difference of accuracy and mean confidence in ten equal-width bins of
    confidence, averaged with the numbers of samples as weights (Guo et al., 2017).

    >>> expected_error(Outputs(np.array([[0.25, 0.75], [0.25, 0.75]]), np.array([1, 0])))
    0.25
    """
    confidence = outputs.probabilities.max(axis=1)
    right = outputs.predicted == outputs.labels
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, weights=right - confidence, minlength=BINS)
    return float(np.abs(gaps).sum() / len(outputs.labels))
