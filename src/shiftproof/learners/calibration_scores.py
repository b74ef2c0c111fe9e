"""How far probabilities are from frequencies: calibration slope, intercept and expected error.

The slope b is that of a logistic regression of the labels on the predicted log odds, with an
intercept: log odds(y) = a + b log odds(p).  Below 1, the probabilities are too extreme.  For
several classes, it is the single b of softmax(a + b log p), with one intercept per class.  The
intercept (calibration in the large) is a with b = 1, for two classes: above 0, the second class
occurs more often than predicted.  The sampling variances are those of the sandwich estimator
H⁻¹ G H⁻¹, with the information H and the sum G of the rows' squared gradients, because the model
with b = 1 is misspecified if the probabilities are not calibrated.

References: Cox (1958), *Two further applications of a model for binary regression*; Van Calster et
al. (2019), *Calibration: the Achilles heel of predictive analytics*.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

SMALLEST = 1e-15
ITERATIONS = 50
# If a model separates the classes, the log-likelihood approaches 0.  Otherwise the label of some
# row has probability at most ½, so the log-likelihood stays below −log 2.
SEPARATED = -0.5
LARGEST = 1e3
BINS = 10


class Fitted(NamedTuple):
    """A maximum-likelihood coefficient and its sampling variance."""

    value: float
    variance: float


def slope(probabilities: np.ndarray, labels: np.ndarray) -> float | None:
    """Return the calibration slope; None if it is not finite, as for separated classes."""
    found = fitted_slope(probabilities, labels)
    return None if found is None else found.value


def intercept(probabilities: np.ndarray, labels: np.ndarray) -> float | None:
    """Return the calibration in the large of two classes; None if it is undefined."""
    found = fitted_intercept(probabilities, labels)
    return None if found is None else found.value


def fitted_slope(probabilities: np.ndarray, labels: np.ndarray) -> Fitted | None:
    """Return the calibration slope with its sampling variance."""
    present, codes = np.unique(labels, return_inverse=True)
    if len(present) == 1:
        return None
    likely = np.log(np.clip(probabilities[:, present], SMALLEST, 1))
    n, classes = likely.shape
    design = np.zeros((n, classes, classes))
    design[:, :, 0] = likely
    design[:, 1:, 1:] = np.eye(classes - 1)  # the first class has intercept 0
    start = np.zeros(classes)
    start[0] = 1
    return _maximum(design, np.zeros_like(likely), codes, start)


def fitted_intercept(probabilities: np.ndarray, labels: np.ndarray) -> Fitted | None:
    """Return the calibration in the large with its sampling variance."""
    if probabilities.shape[1] != 2 or len(np.unique(labels)) == 1:
        return None
    likely = np.log(np.clip(probabilities, SMALLEST, 1))
    design = np.tile(np.array([[0.0], [1.0]]), (len(labels), 1, 1))
    return _maximum(design, likely, labels, np.zeros(1))


def expected_error(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Return the expected calibration error of the predicted class.

    It is the absolute difference of accuracy and mean confidence in ten equal-width bins of
    confidence, averaged with the numbers of samples as weights (Guo et al., 2017).

    >>> expected_error(np.array([[0.25, 0.75], [0.25, 0.75]]), np.array([1, 0]))
    0.25
    """
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == labels
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, weights=right - confidence, minlength=BINS)
    return float(np.abs(gaps).sum() / len(labels))


def _maximum(
    design: np.ndarray, offset: np.ndarray, codes: np.ndarray, start: np.ndarray
) -> Fitted | None:
    """Return the first maximum-likelihood coefficient φ of softmax(offset + design φ).

    Uses Newton's method, halving each step until the likelihood does not decrease.  `design` is
    [n, classes, coefficients].
    """
    rows = np.arange(len(codes))
    wanted = design[rows, codes].sum(axis=0)

    def likelihood(values: np.ndarray) -> tuple[float, np.ndarray]:
        logits = offset + design @ values
        logits = logits - logits.max(axis=1, keepdims=True)
        normal = np.exp(logits).sum(axis=1)
        return float((logits[rows, codes] - np.log(normal)).sum()), np.exp(logits) / normal[:, None]

    values = start
    height, shares = likelihood(values)
    for _ in range(ITERATIONS):
        mean = np.einsum("ic,icj->ij", shares, design)
        gradient = wanted - mean.sum(axis=0)
        curvature = np.einsum("ic,icj,ick->jk", shares, design, design, optimize=True)
        curvature = curvature - mean.T @ mean
        try:
            inverse = np.linalg.inv(curvature)
        except np.linalg.LinAlgError:
            return None
        if not np.isfinite(inverse).all():
            return None  # separated so well that the likelihood is numerically flat
        step = inverse @ gradient
        if abs(gradient @ step) < 1e-12 * len(codes):
            own = design[rows, codes] - mean
            variance = float(np.sum((own @ inverse[0]) ** 2))
            known = variance > 0 and height < SEPARATED
            return Fitted(float(values[0]), variance) if known else None
        while True:
            higher, new_shares = likelihood(values + step)
            if higher >= height or np.abs(step).max() < 1e-12:
                break
            step = step / 2
        values, height, shares = values + step, higher, new_shares
        if not np.abs(values).max() < LARGEST:
            return None
    return None
