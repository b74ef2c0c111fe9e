"""Classification scores of a report card: probabilities against labels.

All but the calibration scores are scikit-learn's.  Binary scores are averaged over the classes that
occur, one versus rest (macro).  A score is None where it is undefined, such as the AUROC of a
domain with one class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

import numpy as np

from shiftproof.core.errors import InvalidValue, nearest
from shiftproof.learners.calibration_scores import expected_error, intercept, slope

Score = Callable[[np.ndarray, np.ndarray], float | None]

# Probabilities are clipped to this in the log loss, so that one certain error is not infinite.
SMALLEST = 1e-15
# Scores where lower is better; the last two are for regression (`learners.number_scores`).
LOSSES = ("log_loss", "brier", "calibration_error", "mae", "rmse")
# Scores that are best at one value, with the value for calibrated predictions; the last is the
# coverage of 90% prediction intervals (`inference.conformal`).
TARGETS = {"calibration_slope": 1.0, "calibration_intercept": 0.0, "interval_coverage": 0.9}


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
