"""Estimates of the scores of one domain: confidence intervals, computed on an unbounded scale.

A score of a domain is an estimate from its samples.  Log odds of proportions (accuracy, AUROC) and
logarithms of losses have nearly normal errors and no bounds, so intervals and means over domains
are computed on these scales and transformed back.  The sampling variance is

- accuracy and balanced accuracy: the variance of binomial proportions, each with half a success
  and half a failure added, so that a proportion of 1 has a positive variance;
- AUROC: DeLong's variance (DeLong et al., 1988), for several classes that of the mean over classes;
- losses: the variance of a mean over rows;
- calibration slope and intercept: the variance of the fit (see `learners.scores`);
- average precision, F1, calibration error: the jackknife over groups of rows.  For the calibration
  error, a sum of absolute values, it is too large by a factor of up to 2.

For regression:

| score | additive scale | sampling variance on that scale |
|---|---|---|
| MAE | logarithm | var(abs(e)) / (n MAE²) |
| RMSE | logarithm | var(e²) / (4 n MSE²) |
| R² | −log(1 − R²) | var(e²/MSE − (y − ȳ)²/V) / n, with V the variance of the labels |
| calibration slope | plain | the sandwich (`learners.scores`) |
| calibration intercept | plain | var(e) / n |
| interval coverage | log odds | the variance of a proportion |

R² has no lower bound, and 1 − R² = MSE/V is a ratio: its logarithm has nearly normal errors.  The
variances come from the delta method.  Scores of perfect predictions have no logarithm and are None.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit, ndtri  # type: ignore[import-untyped]

from shiftproof.learners.scores import (
    EXPECTED,
    NUMBER_CARD,
    SCORES,
    fitted_intercept,
    fitted_number_intercept,
    fitted_number_slope,
    fitted_slope,
    row_losses,
)

LEVEL = 0.95
GROUPS = 20
LARGEST_LOGARITHM = 700.0
# Losses whose standard deviation is a smaller share of their mean are equal but for rounding.
ROUNDING = 1e-9


class Scale(NamedTuple):
    """A scale on which a score is additive, with the transformation and its inverse."""

    name: str
    there: Callable[[float], float]
    back: Callable[[float], float]


LOG_ODDS = Scale("log odds", lambda value: float(logit(value)), lambda value: float(expit(value)))
LOGARITHM = Scale(
    "logarithm",
    lambda value: float(np.log(value)),
    # The bounds for two very different domains can exceed the largest float.
    lambda value: float(np.exp(min(value, LARGEST_LOGARITHM))),
)
IDENTITY = Scale("plain", float, float)
# The scale of R²: minus the logarithm of the unexplained share of the variance.
UNEXPLAINED = Scale(
    "logarithm of the share unexplained",
    lambda value: float(-np.log1p(-value)),
    lambda value: float(-np.expm1(min(-value, LARGEST_LOGARITHM))),
)


# The scales of the scores that are not proportions.
SCALES = {
    **dict.fromkeys(("log_loss", "brier", "mae", "rmse"), LOGARITHM),
    **dict.fromkeys(("calibration_slope", "calibration_intercept"), IDENTITY),
    "r2": UNEXPLAINED,
}


def scale_of(name: str) -> Scale:
    """Return the scale on which a score is additive; every scale is increasing in the score."""
    return SCALES.get(name, LOG_ODDS)


@dataclass(frozen=True)
class Estimate:
    """A score of one domain with its interval, and its value and variance on the additive scale."""

    value: float
    low: float
    high: float
    additive: float
    variance: float

    @classmethod
    def of(
        cls, value: float, scale: Scale, additive: float, variance: float, level: float
    ) -> Estimate:
        """Return a score with the interval of its additive value, which contains the score.

        A score at its bound (0 or 1) lies outside the interval of its corrected log odds.
        """
        reach = float(ndtri((1 + level) / 2)) * variance**0.5
        low, high = (scale.back(additive + sign * reach) for sign in (-1, 1))
        return cls(value, min(low, value), max(high, value), additive, variance)


def estimate(
    name: str, probabilities: np.ndarray, labels: np.ndarray, level: float = LEVEL
) -> Estimate | None:
    """Return a score with its confidence interval; None if it is undefined for these labels.

    >>> found = estimate("accuracy", np.tile([0.4, 0.6], (10, 1)), np.array([0, 1] * 5))
    >>> round(found.low, 2), found.value, round(found.high, 2)
    (0.23, 0.5, 0.77)
    """
    value = SCORES[name](probabilities, labels)
    if value is None:
        return None
    scale = scale_of(name)
    if scale is IDENTITY:
        fit = fitted_slope if name == "calibration_slope" else fitted_intercept
        if (fitted := fit(probabilities, labels)) is None:
            return None
        additive, variance = fitted
    elif scale is LOGARITHM:
        losses = row_losses(name, probabilities, labels)
        additive, variance = float(np.log(value)), log_variance(losses)
    else:
        additive, variance = _log_odds(name, value, probabilities, labels)
    return Estimate.of(value, scale, additive, variance, level)


def estimates(
    probabilities: np.ndarray, labels: np.ndarray, level: float = LEVEL
) -> dict[str, Estimate | None]:
    """Return all scores of a domain with their confidence intervals, by name."""
    return {name: estimate(name, probabilities, labels, level) for name in EXPECTED}


def share_estimate(right: np.ndarray, level: float = LEVEL) -> Estimate:
    """Return a proportion of successes, such as a sensitivity, with its log-odds interval.

    >>> found = share_estimate(np.array([True, False] * 5))
    >>> round(found.low, 2), round(found.high, 2)
    (0.23, 0.77)
    """
    share, variance = _share(right)
    additive, variance = float(logit(share)), variance / (share * (1 - share)) ** 2
    return Estimate.of(float(right.mean()), LOG_ODDS, additive, variance, level)


def auroc_variance(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Return DeLong's variance of the macro AUROC.

    The AUROC of class c is a mean over pairs of a row of c and another row.  A row of class k
    contributes to the AUROC of its own class the share of other rows below it, and to that of each
    other class c the share of rows of c above it.  Given the number of rows of each class, the sum
    of the contributions of independent rows has the variance Σ_k n_k s²_k, where s²_k is the
    variance of the contributions of the rows of class k.  For two classes this is DeLong et al.
    (1988).
    """
    from scipy.stats import rankdata  # type: ignore[import-untyped]

    present = np.unique(labels)
    parts = np.zeros(len(labels))
    for k in present:
        own = labels == k
        score = probabilities[:, k]
        ranks, above, below = rankdata(score), rankdata(score[own]), rankdata(score[~own])
        inside, outside = int(own.sum()), int((~own).sum())
        parts[own] += (ranks[own] - above) / outside / inside
        parts[~own] += (1 - (ranks[~own] - below) / inside) / outside
    parts /= len(present)
    of_classes = [parts[labels == k] for k in present]
    return float(sum(len(own) * own.var(ddof=1) for own in of_classes if len(own) > 1))


def jackknife_variance(name: str, probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Return the grouped jackknife variance of a score.

    The groups of rows are stratified by class.
    """
    shuffled = np.random.default_rng(0).permutation(len(labels))
    order = shuffled[np.argsort(labels[shuffled], kind="stable")]
    groups = min(GROUPS, len(labels))
    found = []
    for group in range(groups):
        kept = np.delete(order, np.s_[group::groups])
        value = SCORES[name](probabilities[kept], labels[kept]) if len(kept) else None
        if value is not None:
            found.append(value)
    if len(found) < 2:
        return 0.0
    return float((len(found) - 1) * np.var(found))


def log_variance(losses: np.ndarray) -> float:
    """Return the variance of the logarithm of a mean loss, set to 1/n for n equal losses.

    >>> log_variance(np.array([1.0, 3.0])), log_variance(np.array([0.3, 0.1 + 0.2]))
    (0.25, 0.5)
    """
    n = len(losses)
    variance = float(losses.var(ddof=1) / losses.mean() ** 2) if n > 1 else 0.0
    return variance / n if variance > ROUNDING**2 else 1 / n


def _log_odds(
    name: str, value: float, probabilities: np.ndarray, labels: np.ndarray
) -> tuple[float, float]:
    """Return the log odds of a proportion, and their variance."""
    n = len(labels)
    predicted = probabilities.argmax(axis=1)
    if name == "accuracy":
        share, variance = _share(predicted == labels)
    elif name == "balanced_accuracy":
        recalls = [_share(predicted[labels == k] == k) for k in np.unique(labels)]
        share = float(np.mean([own for own, _ in recalls]))
        variance = sum(own for _, own in recalls) / len(recalls) ** 2
    else:
        # Keep the value away from 0 and 1, by about half a row of the smallest class.
        rows = (
            n
            if name == "calibration_error"
            else int(np.unique(labels, return_counts=True)[1].min())
        )
        least = 0.5 / (rows + 1)
        share = min(max(value, least), 1 - least)
        variance = (
            auroc_variance(probabilities, labels)
            if name == "auroc"
            else jackknife_variance(name, probabilities, labels)
        )
        if share != value or variance <= 0:
            variance = max(variance, share * (1 - share) / rows)
    return float(logit(share)), variance / (share * (1 - share)) ** 2


def _share(right: np.ndarray) -> tuple[float, float]:
    """Return a proportion with half a success and half a failure added, and its variance."""
    n = len(right) + 1
    share = (float(right.sum()) + 0.5) / n
    return share, share * (1 - share) / n


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
    return Estimate.of(value, scale_of(name), *found, level)


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


def _fitted(fit: Callable[[np.ndarray, np.ndarray], tuple[float, float] | None]) -> Additive:
    """Return the value and variance of a fit, or None if it has no sampling error."""

    def additive(predicted: np.ndarray, labels: np.ndarray) -> tuple[float, float] | None:
        found = fit(predicted, labels)
        return None if found is None or not found[1] > 0 else (found[0], found[1])

    return additive


_ADDITIVE: dict[str, Additive] = {
    "r2": _r2,
    "mae": _mae,
    "rmse": _rmse,
    "calibration_slope": _fitted(fitted_number_slope),
    "calibration_intercept": _fitted(fitted_number_intercept),
}
