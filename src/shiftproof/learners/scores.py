"""The scores of a report card: probabilities or predicted numbers against labels.

A score is None where it is undefined, such as the AUROC of a domain with one class, or R² where all
labels are equal.

Classification scores but for calibration are scikit-learn's.  Binary scores are averaged over the
classes that occur, one versus rest (macro).  The calibration slope b is that of a logistic
regression of the labels on the predicted log odds, with an intercept: log odds(y) = a + b log
odds(p).  Below 1, the probabilities are too extreme.  For several classes, it is the single b of
softmax(a + b log p), with one intercept per class.  The intercept (calibration in the large) is a
with b = 1, for two classes: above 0, the second class occurs more often than predicted.  The
sampling variances are those of the sandwich estimator H⁻¹ G H⁻¹, with the information H and the sum
G of the rows' squared gradients, because the model with b = 1 is misspecified if the probabilities
are not calibrated.

For regression, with errors eᵢ = ŷᵢ − yᵢ of n rows and ȳ the mean of their labels,

    MAE = (1/n) Σ |eᵢ|,   RMSE = √((1/n) Σ eᵢ²),   R² = 1 − Σ eᵢ² / Σ (yᵢ − ȳ)².

R² is 0 for predicting the mean of the scored rows, and negative for anything worse: predicting the
training mean has a negative R² on a domain with another mean.  The slope b is that of the
least-squares fit y = a + b ŷ.  Below 1, predictions are too extreme: high ones are too high and low
ones too low.  The intercept is the mean of y − ŷ, in the label's unit: above 0, labels are higher
than predicted.  The sampling variance of the slope is that of the sandwich estimator with
leave-one-out residuals (HC3; MacKinnon and White, 1985), because errors may be heteroscedastic.

References: Cox (1958), *Two further applications of a model for binary regression*; Van Calster et
al. (2019), *Calibration: the Achilles heel of predictive analytics*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np

from shiftproof.core.errors import InvalidValue, nearest

Score = Callable[[np.ndarray, np.ndarray], float | None]

# Probabilities are clipped to this before the logarithm, so that one certain error is not infinite.
SMALLEST = 1e-15
# The score for calibration, and the default metric of learners that choose settings.
LOG_LOSS = "log_loss"
# Scores where lower is better; the last two are for regression.
LOSSES = ("log_loss", "brier", "calibration_error", "mae", "rmse")
# Scores that are best at one value, with the value for calibrated predictions; the last is the
# coverage of 90% prediction intervals (`inference.conformal`).
TARGETS = {"calibration_slope": 1.0, "calibration_intercept": 0.0, "interval_coverage": 0.9}
# Of the fit of the calibration slope and intercept.
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
NUMBER_SCORES: dict[str, Score] = {"r2": r2, "mae": mae, "rmse": rmse}
NUMBER_CARD: dict[str, Score] = {
    **NUMBER_SCORES,
    "calibration_slope": number_slope,
    "calibration_intercept": number_intercept,
}


def scores(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, float | None]:
    """Return the scores of probabilities [n, classes] for labels [n], by name.

    >>> found = scores(np.array([[0.9, 0.1], [0.4, 0.6], [0.3, 0.7]]), np.array([0, 0, 1]))
    >>> found["auroc"], round(found["accuracy"], 3), round(found["log_loss"], 3)
    (1.0, 0.667, 0.459)
    """
    return {name: score(probabilities, labels) for name, score in SCORES.items()}


def checked_metric(name: str) -> str:
    """Return the name of a score in `EXPECTED`; raise InvalidValue for any other."""
    if name not in EXPECTED:
        raise InvalidValue(f"`metric` {name!r} is unknown; {nearest(name, EXPECTED)}")
    return name


def mean_scores(of_domains: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    """Return the mean of each score over the domains where it is defined."""
    found: dict[str, float | None] = {}
    for name in dict.fromkeys(name for own in of_domains for name in own):
        defined = [value for own in of_domains if (value := own.get(name)) is not None]
        found[name] = fmean(defined) if defined else None
    return found


def worst_scores(of_domains: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    """Return the worst value of each score over the domains where it is defined."""
    found: dict[str, float | None] = {}
    for name in dict.fromkeys(name for own in of_domains for name in own):
        defined = [value for own in of_domains if (value := own.get(name)) is not None]
        found[name] = max(defined, key=lambda value: badness(name, value), default=None)
    return found


def row_losses(name: str, probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the loss of each row; the score is their mean."""
    likely = _clipped(probabilities)
    if name == "log_loss":
        return np.asarray(-np.log(likely[np.arange(len(labels)), labels]))
    return np.asarray(((likely - np.eye(likely.shape[1])[labels]) ** 2).sum(axis=1))


def badness(name: str, value: float) -> float:
    """Return a number that is lower for a better value of a score.

    >>> badness("auroc", 0.9), badness("brier", 0.2), badness("calibration_slope", 0.75)
    (-0.9, 0.2, 0.25)
    """
    if name in TARGETS:
        return abs(value - TARGETS[name])
    return value if name in LOSSES else -value


def _accuracy(probabilities: np.ndarray, labels: np.ndarray) -> float:
    from sklearn.metrics import accuracy_score  # type: ignore[import-untyped]

    return float(accuracy_score(labels, probabilities.argmax(axis=1)))


def _balanced_accuracy(probabilities: np.ndarray, labels: np.ndarray) -> float:
    from sklearn.metrics import recall_score

    return _macro(recall_score, probabilities, labels)


def _f1(probabilities: np.ndarray, labels: np.ndarray) -> float:
    from sklearn.metrics import f1_score

    return _macro(f1_score, probabilities, labels)


def _auroc(probabilities: np.ndarray, labels: np.ndarray) -> float | None:
    from sklearn.metrics import roc_auc_score

    return _by_class(roc_auc_score, probabilities, labels)


def _average_precision(probabilities: np.ndarray, labels: np.ndarray) -> float | None:
    from sklearn.metrics import average_precision_score

    return _by_class(average_precision_score, probabilities, labels)


def _log_loss(probabilities: np.ndarray, labels: np.ndarray) -> float:
    from sklearn.metrics import log_loss

    classes = np.arange(probabilities.shape[1])
    return float(log_loss(labels, _clipped(probabilities), labels=classes))


def _brier(probabilities: np.ndarray, labels: np.ndarray) -> float:
    from sklearn.metrics import brier_score_loss

    likely, classes = _clipped(probabilities), np.arange(probabilities.shape[1])
    return float(brier_score_loss(labels, likely, labels=classes, scale_by_half=False))


def _commonest_class(probabilities: np.ndarray, labels: np.ndarray) -> float:
    return float(np.bincount(labels).max() / len(labels))


def _clipped(probabilities: np.ndarray) -> np.ndarray:
    likely = np.clip(probabilities, SMALLEST, 1)
    return np.asarray(likely / likely.sum(axis=1, keepdims=True))


def _macro(score: Callable[..., float], probabilities: np.ndarray, labels: np.ndarray) -> float:
    predicted, present = probabilities.argmax(axis=1), np.unique(labels)
    return float(score(labels, predicted, labels=present, average="macro", zero_division=0))


def _by_class(
    score: Callable[[np.ndarray, np.ndarray], float], probabilities: np.ndarray, labels: np.ndarray
) -> float | None:
    """Return the one-versus-rest mean over the classes that occur, or None if only one occurs."""
    present = np.unique(labels)
    if len(present) == 1:
        return None
    return float(np.mean([score(labels == k, probabilities[:, k]) for k in present]))


SCORES: dict[str, Score] = {
    "accuracy": _accuracy,
    "balanced_accuracy": _balanced_accuracy,
    "auroc": _auroc,
    "average_precision": _average_precision,
    "f1": _f1,
    "log_loss": _log_loss,
    "brier": _brier,
    "calibration_slope": slope,
    "calibration_intercept": intercept,
    "calibration_error": expected_error,
    "commonest_class": _commonest_class,
}
# Scores that get a mean over domains and an interval.
EXPECTED = tuple(name for name in SCORES if name != "commonest_class")
