"""Scores of one domain as estimates: with an interval, on the scale where they are additive.

A score of a domain is an estimate from its samples.  Log odds of shares (accuracy, AUROC) and
logarithms of losses have nearly normal errors and no bounds, so intervals and means over domains
are computed there and taken back.  The sampling variance is

- accuracy and balanced accuracy: that of binomial shares, each with half a success and half a
  failure added, so that a share of 1 has an error too;
- AUROC: DeLong's (DeLong et al., 1988), for several classes that of the mean over classes;
- losses: that of a mean over rows;
- calibration slope and intercept: that of the fit (see `calibration_scores`);
- average precision, F1, calibration error: the jackknife over groups of rows.  That of the
  calibration error, a sum of absolute values, is up to twice too large.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit, ndtri  # type: ignore[import-untyped]

from shiftproof.learners.calibration_scores import fitted_intercept, fitted_slope
from shiftproof.learners.scores import EXPECTED, SCORES, row_losses

LEVEL = 0.95
GROUPS = 20
LOGARITHMIC = ("log_loss", "brier", "mae", "rmse")
EXPLAINED = ("r2",)
PLAIN = ("calibration_slope", "calibration_intercept")
LARGEST_LOGARITHM = 700.0


class Scale(NamedTuple):
    """Where a score is additive: there and back."""

    name: str
    there: Callable[[float], float]
    back: Callable[[float], float]


def _same(value: float) -> float:
    return value


LOG_ODDS = Scale("log odds", lambda value: float(logit(value)), lambda value: float(expit(value)))
LOGARITHM = Scale(
    "logarithm",
    lambda value: float(np.log(value)),
    # Two domains that differ much have bounds beyond the largest number.
    lambda value: float(np.exp(min(value, LARGEST_LOGARITHM))),
)
IDENTITY = Scale("plain", _same, _same)
# Of R²: minus the logarithm of the share of the variance that is not explained.
UNEXPLAINED = Scale(
    "logarithm of the share unexplained",
    lambda value: float(-np.log1p(-value)),
    lambda value: float(-np.expm1(min(-value, LARGEST_LOGARITHM))),
)


def scale_of(name: str) -> Scale:
    """Return the scale where a score is additive; more is more on all of them."""
    if name in EXPLAINED:
        return UNEXPLAINED
    return LOGARITHM if name in LOGARITHMIC else IDENTITY if name in PLAIN else LOG_ODDS


@dataclass(frozen=True)
class Estimate:
    """A score of one domain: its value, its interval, and both on the additive scale."""

    value: float
    low: float
    high: float
    additive: float
    variance: float


def estimate(
    name: str, probabilities: np.ndarray, labels: np.ndarray, level: float = LEVEL
) -> Estimate | None:
    """Return a score with its interval; None where the labels leave it undefined.

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
        additive, variance = _log(
            value, float(losses.var(ddof=1)) if len(labels) > 1 else 0, labels
        )
    else:
        additive, variance = _log_odds(name, value, probabilities, labels)
    reach = float(ndtri((1 + level) / 2)) * variance**0.5
    # A value on the bound of the scale is outside the interval of its corrected log odds.
    low, high = (scale.back(additive + sign * reach) for sign in (-1, 1))
    return Estimate(value, min(low, value), max(high, value), additive, variance)


def estimates(
    probabilities: np.ndarray, labels: np.ndarray, level: float = LEVEL
) -> dict[str, Estimate | None]:
    """Return all scores of a domain with their intervals, by name."""
    return {name: estimate(name, probabilities, labels, level) for name in EXPECTED}


def share_interval(right: np.ndarray, level: float = LEVEL) -> tuple[float, float]:
    """Return the interval of a share of successes, by its log odds; it holds the share itself.

    >>> low, high = share_interval(np.array([True, False] * 5))
    >>> round(low, 2), round(high, 2)
    (0.23, 0.77)
    """
    found = share_estimate(right, level)
    return found.low, found.high


def share_estimate(right: np.ndarray, level: float = LEVEL) -> Estimate:
    """Return a share of successes, such as a sensitivity, with its interval."""
    share, variance = _share(right)
    additive, variance = float(logit(share)), variance / (share * (1 - share)) ** 2
    reach = float(ndtri((1 + level) / 2)) * variance**0.5
    low, high = (float(expit(additive + sign * reach)) for sign in (-1, 1))
    value = float(right.mean())
    return Estimate(value, min(low, value), max(high, value), additive, variance)


def auroc_variance(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Return DeLong's variance of the macro AUROC.

    The AUROC of class c is a mean over pairs of its rows and the others.  A row of class k enters
    that of its own class by the share of other rows below it, and that of each other class c by the
    share of rows of c above it.  Given how many rows each class has, the sum of the parts of
    independent rows has the variance Σ_k n_k s²_k, where s²_k is the variance of the parts of
    the rows of class k.  For two classes this is DeLong et al. (1988).
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
    """Return the variance of a score by leaving out each of some groups of rows in turn.

    Rows are dealt to groups class by class, so that each group has its share of every class.
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


def _log(value: float, variance: float, labels: np.ndarray) -> tuple[float, float]:
    """Return the logarithm of a mean loss, and its variance; that of n equal losses is 1/n."""
    n = len(labels)
    return float(np.log(value)), variance / n / value**2 if variance > 0 else 1 / n


def _log_odds(
    name: str, value: float, probabilities: np.ndarray, labels: np.ndarray
) -> tuple[float, float]:
    """Return the log odds of a share, and their variance."""
    n = len(labels)
    predicted = probabilities.argmax(axis=1)
    if name == "accuracy":
        share, variance = _share(predicted == labels)
    elif name == "balanced_accuracy":
        recalls = [_share(predicted[labels == k] == k) for k in np.unique(labels)]
        share = float(np.mean([own for own, _ in recalls]))
        variance = sum(own for _, own in recalls) / len(recalls) ** 2
    else:
        # A value near a bound counts as if half a row of the smallest class were otherwise.
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
    """Return a share with half a success and half a failure added, and its variance."""
    n = len(right) + 1
    share = (float(right.sum()) + 0.5) / n
    return share, share * (1 - share) / n
