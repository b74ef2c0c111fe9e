"""Metrics of class probabilities: scikit-learn's, and their sampling variances.

Binary metrics are averaged over the classes that occur, one versus rest (macro).  The sampling
variance is

- accuracy and balanced accuracy: the variance of binomial proportions, each with half a success
  and half a failure added, so that a proportion of 1 has a positive variance;
- AUROC: DeLong's variance (DeLong et al., 1988), for several classes that of the mean over classes;
- losses: the variance of a mean over rows;
- calibration slope and intercept: the variance of the fit (`metrics.calibration`);
- average precision, F1, calibration error: the jackknife over groups of rows.  For the calibration
  error, a sum of absolute values, it is too large by a factor of up to 2.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import logit

from shiftproof.metrics.base import LEVEL, LOG_ODDS, Additive, Estimate, jackknife_variance
from shiftproof.metrics.calibration import SMALLEST
from shiftproof.metrics.outputs import Outputs
from shiftproof.statistics.auroc import auroc_variance

# Losses whose standard deviation is a smaller share of their mean are equal but for rounding.
ROUNDING = 1e-9


def _scikit(name: str) -> Callable[..., float]:
    """Return a metric of scikit-learn, which is slow to import."""
    from sklearn import metrics

    score: Callable[..., float] = getattr(metrics, name)
    return score


def accuracy(outputs: Outputs) -> float:
    """Return the share of rows whose class is predicted."""
    return float(_scikit("accuracy_score")(outputs.labels, outputs.predicted))


def balanced_accuracy(outputs: Outputs) -> float:
    """Return the mean recall of the classes that occur."""
    return _macro("recall_score", outputs)


def f1(outputs: Outputs) -> float:
    """Return the mean F1 of the classes that occur."""
    return _macro("f1_score", outputs)


def auroc(outputs: Outputs) -> float | None:
    """Return the mean area under the ROC curve of the classes that occur."""
    return _by_class("roc_auc_score", outputs)


def average_precision(outputs: Outputs) -> float | None:
    """Return the mean average precision of the classes that occur."""
    return _by_class("average_precision_score", outputs)


def log_loss(outputs: Outputs) -> float:
    """Return the mean of −log p(label)."""
    classes = np.arange(outputs.probabilities.shape[1])
    return float(_scikit("log_loss")(outputs.labels, _clipped(outputs), labels=classes))


def brier(outputs: Outputs) -> float:
    """Return the mean squared difference of probabilities and labels, summed over classes."""
    classes = np.arange(outputs.probabilities.shape[1])
    score = _scikit("brier_score_loss")
    return float(score(outputs.labels, _clipped(outputs), labels=classes, scale_by_half=False))


def commonest_class(outputs: Outputs) -> float:
    """Return the accuracy of always predicting the commonest class."""
    return float(np.bincount(outputs.labels).max() / len(outputs.labels))


def _macro(name: str, outputs: Outputs) -> float:
    settings = {"labels": np.unique(outputs.labels), "average": "macro", "zero_division": 0}
    return float(_scikit(name)(outputs.labels, outputs.predicted, **settings))


def _by_class(name: str, outputs: Outputs) -> float | None:
    """Return the one-versus-rest mean over the classes that occur, or None if only one occurs."""
    labels, score = outputs.labels, _scikit(name)
    present = np.unique(labels)
    if len(present) == 1:
        return None
    return float(np.mean([score(labels == k, outputs.probabilities[:, k]) for k in present]))


def _clipped(outputs: Outputs) -> np.ndarray:
    likely = np.clip(outputs.probabilities, SMALLEST, 1)
    return np.asarray(likely / likely.sum(axis=1, keepdims=True))


# --- sampling errors ---------------------------------------------------------------------------
def additive_log_loss(outputs: Outputs) -> tuple[float, float]:
    """Return the logarithm of the log loss, and its variance."""
    losses = -np.log(_clipped(outputs)[np.arange(len(outputs.labels)), outputs.labels])
    return float(np.log(log_loss(outputs))), log_variance(losses)


def additive_brier(outputs: Outputs) -> tuple[float, float]:
    """Return the logarithm of the Brier score, and its variance."""
    likely = _clipped(outputs)
    losses = ((likely - np.eye(likely.shape[1])[outputs.labels]) ** 2).sum(axis=1)
    return float(np.log(brier(outputs))), log_variance(losses)


def log_variance(losses: np.ndarray) -> float:
    """Return the variance of the logarithm of a mean loss, set to 1/n for n equal losses.

    >>> log_variance(np.array([1.0, 3.0])), log_variance(np.array([0.3, 0.1 + 0.2]))
    (0.25, 0.5)
    """
    n = len(losses)
    variance = float(losses.var(ddof=1) / losses.mean() ** 2) if n > 1 else 0.0
    return variance / n if variance > ROUNDING**2 else 1 / n


def additive_share(right: np.ndarray) -> tuple[float, float]:
    """Return the log odds of a proportion of successes, and their variance."""
    return _log_odds(*_share(right))


def share_estimate(right: np.ndarray, level: float = LEVEL) -> Estimate:
    """Return a proportion of successes, such as a sensitivity, with its log-odds interval.

    >>> found = share_estimate(np.array([True, False] * 5))
    >>> round(found.low, 2), round(found.high, 2)
    (0.23, 0.77)
    """
    return Estimate.of(float(right.mean()), LOG_ODDS, *additive_share(right), level)


def additive_accuracy(outputs: Outputs) -> tuple[float, float]:
    """Return the log odds of the accuracy, and their variance."""
    return additive_share(outputs.predicted == outputs.labels)


def additive_balanced_accuracy(outputs: Outputs) -> tuple[float, float]:
    """Return the log odds of the balanced accuracy, and their variance."""
    labels, predicted = outputs.labels, outputs.predicted
    recalls = [_share(predicted[labels == k] == k) for k in np.unique(labels)]
    share = float(np.mean([recall for recall, _ in recalls]))
    return _log_odds(share, sum(variance for _, variance in recalls) / len(recalls) ** 2)


def additive_auroc(outputs: Outputs) -> tuple[float, float]:
    """Return the log odds of the AUROC, and their variance."""
    return _kept_inside(
        auroc(outputs) or 0.0,
        auroc_variance(outputs.probabilities, outputs.labels),
        _rows_of_smallest_class(outputs),
    )


def jackknifed(score: Callable[[Outputs], float | None], *, by_class: bool = True) -> Additive:
    """Return the log odds of a score and their jackknife variance.

    The score is kept away from 0 and 1 by about half a row: of the smallest class, or of all.
    """

    def additive(outputs: Outputs) -> tuple[float, float]:
        rows = _rows_of_smallest_class(outputs) if by_class else len(outputs.labels)
        return _kept_inside(score(outputs) or 0.0, jackknife_variance(score, outputs), rows)

    return additive


def _rows_of_smallest_class(outputs: Outputs) -> int:
    return int(np.unique(outputs.labels, return_counts=True)[1].min())


def _kept_inside(value: float, variance: float, rows: int) -> tuple[float, float]:
    """Return the log odds of a share, kept away from 0 and 1, and their variance."""
    least = 0.5 / (rows + 1)
    share = min(max(value, least), 1 - least)
    if share != value or variance <= 0:
        variance = max(variance, share * (1 - share) / rows)
    return _log_odds(share, variance)


def _log_odds(share: float, variance: float) -> tuple[float, float]:
    return float(logit(share)), variance / (share * (1 - share)) ** 2


def _share(right: np.ndarray) -> tuple[float, float]:
    """Return a proportion with half a success and half a failure added, and its variance."""
    n = len(right) + 1
    share = (float(right.sum()) + 0.5) / n
    return share, share * (1 - share) / n
