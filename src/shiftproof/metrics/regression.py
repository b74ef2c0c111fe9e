"""Metrics of predicted numbers.

With errors eᵢ = ŷᵢ − yᵢ of n rows, ȳ the mean of their labels, and V their variance,

    MAE = (1/n) Σ |eᵢ|,   RMSE = √((1/n) Σ eᵢ²),   R² = 1 − Σ eᵢ² / Σ (yᵢ − ȳ)².

R² is 0 for predicting the mean of the scored rows, and negative for anything worse: predicting the
training mean has a negative R² on a domain with another mean.

| metric | scale | sampling variance on that scale |
|---|---|---|
| MAE | logarithm | var(abs(e)) / (n MAE²) |
| RMSE | logarithm | var(e²) / (4 n MSE²) |
| R² | −log(1 − R²) | var(e²/MSE − (y − ȳ)²/V) / n |
| calibration slope | plain | the sandwich (`metrics.calibration`) |
| calibration intercept | plain | var(e) / n |
| interval coverage | log odds | the variance of a proportion (`inference.conformal`) |

R² has no lower bound, and 1 − R² = MSE/V is a ratio: its logarithm has nearly normal errors.  The
variances come from the delta method.  Metrics of perfect predictions have no logarithm and are None
in `expect`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from shiftproof.metrics.base import LEVEL, Estimate
from shiftproof.metrics.classification import log_variance, share_estimate
from shiftproof.metrics.outputs import NumberOutputs

Additive = tuple[float, float]
# Fewer rows show no sampling error.
FEWEST = 3


def r2(outputs: NumberOutputs) -> float | None:
    """Return the share of the labels' variance explained; None if all labels are equal."""
    total = float(np.square(outputs.labels - outputs.labels.mean()).sum())
    if total == 0:
        return None
    return 1 - float(np.square(outputs.predicted - outputs.labels).sum()) / total


def mae(outputs: NumberOutputs) -> float:
    """Return the mean absolute error."""
    return float(np.abs(outputs.predicted - outputs.labels).mean())


def rmse(outputs: NumberOutputs) -> float:
    """Return the root of the mean squared error."""
    return float(np.sqrt(np.square(outputs.predicted - outputs.labels).mean()))


def additive_r2(outputs: NumberOutputs) -> Additive | None:
    """Return −log(1 − R²) and its variance."""
    squares = np.square(outputs.predicted - outputs.labels)
    around = np.square(outputs.labels - outputs.labels.mean())
    mse, spread = float(squares.mean()), float(around.mean())
    if not (mse > 0 and spread > 0 and len(outputs.labels) >= FEWEST):
        return None
    influence = squares / mse - around / spread
    variance = float(influence.var(ddof=1)) / len(outputs.labels)
    return (float(np.log(spread / mse)), variance) if variance > 0 else None


def additive_mae(outputs: NumberOutputs) -> Additive | None:
    """Return the logarithm of the MAE and its variance."""
    return _logarithm(np.abs(outputs.predicted - outputs.labels))


def additive_rmse(outputs: NumberOutputs) -> Additive | None:
    """Return the logarithm of the RMSE and its variance."""
    return _logarithm(np.square(outputs.predicted - outputs.labels), 2)


def _logarithm(losses: np.ndarray, root: int = 1) -> Additive | None:
    """Return the logarithm of a mean loss (or of its root), and its variance."""
    mean = float(losses.mean())
    if not (mean > 0 and len(losses) >= FEWEST):
        return None
    return float(np.log(mean)) / root, log_variance(losses) / root**2


# The name of the coverage in a report card, and the level of its intervals.
COVERAGE, COVERAGE_LEVEL = "interval_coverage", 0.9


def domain_quantile(scores: Sequence[np.ndarray], level: float) -> tuple[float, bool]:
    """Return the quantile q of the scores [n_d] of each domain, and whether it is guaranteed.

    If so, the score of a row of a new domain is at most q with probability at least `level`.
    """
    promised = len(scores) >= domains_needed(level)
    return weighted_quantile(scores, level, len(scores) + promised), promised


def weighted_quantile(scores: Sequence[np.ndarray], level: float, domains: int) -> float:
    """Return the quantile of the scores, where each domain has total weight 1 / `domains`."""
    mass = 1 / domains
    weights = np.concatenate([np.full(len(part), mass / len(part)) for part in scores])
    values = np.concatenate(scores)
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) >= level - 1e-9
    return float(values[order][reached.argmax()])


def domains_needed(level: float) -> int:
    """Return the number of domains needed to guarantee coverage at this level.

    >>> domains_needed(0.9), domains_needed(0.95), domains_needed(0.5)
    (9, 19, 1)
    """
    return math.ceil(1 / (1 - level) - 1 - 1e-9)


def coverage_estimates(
    outputs: Mapping[str, NumberOutputs], level: float = LEVEL
) -> dict[str, Estimate | None]:
    """Return the coverage on each domain of `COVERAGE_LEVEL` intervals from all other domains.

    `level` is the level of the confidence interval of the coverage.  A single domain gets None.
    """
    errors = {name: np.abs(part.labels - part.predicted) for name, part in outputs.items()}
    estimates: dict[str, Estimate | None] = {}
    for domain, here in errors.items():
        others = [part for name, part in errors.items() if name != domain]
        estimates[domain] = None
        if others and len(here):
            q, _ = domain_quantile(others, COVERAGE_LEVEL)
            estimates[domain] = share_estimate(here <= q, level)
    return estimates
