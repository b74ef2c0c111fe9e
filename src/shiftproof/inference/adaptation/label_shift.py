"""Predictions for a new site, corrected for its class shares if they surely differ.

Under label shift, the class shares π of a new site differ from those of training, and p(x|y) is the
same.  A model with probabilities m(y|x), trained on rows with class shares ρ, then gives p(x|y) up
to a factor that depends on x only:

    p(y|x) ∝ π(y) · ℓ(y|x),     ℓ(y|x) = exp(a · log(m(y|x) / ρ(y)) + b(y)).

The slope a and the biases b calibrate the probabilities of the model: *bias-corrected temperature
scaling*.  They are fitted to held-out training domains, each with its own known shares, because
these differ as those of a new site do.  The estimate π̂ maximises the likelihood Σ_i log Σ_y π(y)
ℓ(y|x_i) of the n new rows, by expectation–maximisation.

Real sites differ in more than their shares, so the error of π̂ has two parts.  The mean squared
error s² of the same estimate on K held-out training domains, whose labels are known, measures the
differences between sites; each is calibrated without its fold.  The sampling variance of the new
rows is the inverse of the information at π = ρ, V = (Σ_i u_i u_iᵀ)⁻¹ with u_i(y) = ℓ(y|x_i) /
Σ_k ρ(k) ℓ(k|x_i), on the simplex.  With v = tr V,

    |π̂ − ρ|² / (s² + v)

is compared with Fisher's F with 1 and K ((s² + v) / s²)² degrees of freedom (Satterthwaite, 1946):
a Wald test.  Only what exceeds the error is corrected: with q the largest distance |π̂ − ρ| that the
test does not reject, the shares are π = ρ + (1 − q / |π̂ − ρ|) (π̂ − ρ), the point nearest to the
shares of training that is not further than q from the estimate, and p(y|x) ∝ m(y|x) π(y) / ρ(y).
So few rows, weak signal, or training domains whose shares cannot be estimated mean no correction.
Columns that drift can change scores as other shares would, so nothing is corrected if the rows are
much less typical of the training domains than their own rows are (`inference.typicality`).

References: Saerens et al. (2002), *Adjusting the outputs of a classifier to new a priori
probabilities*; Alexandari et al. (2020), *Maximum likelihood with bias-corrected calibration is
hard-to-beat at label shift adaptation*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import null_space
from scipy.special import fdtrc, stdtrit

from shiftproof.core.errors import InvalidValue
from shiftproof.statistics.recalibration import COARSE, recalibrate

SMALLEST = 1e-7
# Bounds: slopes from 1/e³ to e³, biases to ±10.  Beyond, classes are separated and any value fits.
STEEPEST, LARGEST_BIAS = 3.0, 10.0


@dataclass(frozen=True)
class HeldOut:
    """Rows of training domains, each predicted by a model that was not trained on its domain.

    The rows have probabilities ``predicted`` [n, c] (or numbers [n, 1]), classes ``y`` [n] (or
    numbers), ``domain`` [n] and ``fold`` [n].  The model that predicted a row was trained on the
    rows of the other folds.
    """

    predicted: np.ndarray
    y: np.ndarray
    domain: np.ndarray
    fold: np.ndarray

    @property
    def classes(self) -> int:
        """The number of classes."""
        return int(self.predicted.shape[1])

    def _counts(self, group: np.ndarray) -> np.ndarray:
        """Return how often each class occurs in the group of each row, [n, c]."""
        names, codes = np.unique(group, return_inverse=True)
        counts = np.zeros((len(names), self.classes))
        np.add.at(counts, (codes, self.y), 1)
        return counts[codes]

    @cached_property
    def ratios(self) -> np.ndarray:
        """The logarithms of m(y|x) / ρ(y), [n, c].

        ρ are the class shares in the training rows of the model that predicted a row.
        """
        counts = np.bincount(self.y, minlength=self.classes) - self._counts(self.fold)
        return log_ratio(self.predicted, counts / counts.sum(axis=1, keepdims=True))

    def calibrated(self, rows: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the slope and biases fitted to the given rows, weighting all domains equally."""
        counts = self._counts(self.domain)[rows]
        sizes = counts.sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            offsets = np.log(counts / sizes)
        weights = 1 / sizes[:, 0]
        return fit_calibration(self.ratios[rows], self.y[rows], offsets, weights / weights.sum())


def class_shares(y: np.ndarray, classes: int) -> np.ndarray:
    """Return the share of each class, [classes].

    >>> class_shares(np.array([0, 0, 0, 1]), 3).tolist()
    [0.75, 0.25, 0.0]
    """
    return np.asarray(np.bincount(y, minlength=classes) / len(y))


def log_ratio(probabilities: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return log(m(y|x) / ρ(y)) [n, c], for ``shares`` ρ [c] or [n, c]; −∞ where ρ is 0."""
    shares = np.broadcast_to(shares, probabilities.shape)
    ratio = np.maximum(probabilities, SMALLEST) / np.where(shares > 0, shares, 1)
    return np.asarray(np.where(shares > 0, np.log(ratio), -np.inf))


def fit_calibration(
    ratios: np.ndarray, y: np.ndarray, offsets: np.ndarray, weights: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return the slope and biases [c] that maximise the weighted likelihood.

    The model is p(y|x) = softmax(offset + a · ratio + b); its log loss is convex in (a, b).  A row
    whose class was absent from the training of its model (ratio −∞) is uninformative and left out.
    A class with no other rows keeps the odds of the model: its bias is 0, the mean of the others.

    Args:
        ratios: log(m(y|x) / ρ(y)) [n, c] of rows that the model was not trained on.
        y: classes of the rows [n].
        offsets: logarithms of the class shares of each row's domain, [n, c].
        weights: weights of the rows, [n].
    """
    told = np.isfinite(ratios[np.arange(len(y)), y])
    if not told.any():
        return 1.0, np.zeros(ratios.shape[1])
    ratios, y, offsets, weights = ratios[told], y[told], offsets[told], weights[told]
    occurs = np.bincount(y, minlength=ratios.shape[1]) > 0
    usable = np.isfinite(ratios) & np.isfinite(offsets)
    fit = recalibrate(
        np.where(np.isfinite(ratios), ratios, np.log(SMALLEST)),
        y,
        intercepts=occurs,
        offset=np.where(usable, offsets, -np.inf),
        weights=weights,
        bounds=((np.exp(-STEEPEST), np.exp(STEEPEST)), LARGEST_BIAS),
        precision=COARSE,
    )
    return fit.slope, np.where(occurs, fit.intercepts - fit.intercepts[occurs].mean(), 0)


ADAPT = ("auto", "none")
# Level of the test, and of intervals 1 − LEVEL.
LEVEL = 0.05
# Fewest rows of a new site, and of a training domain for its error to count; fewest such domains.
FEWEST, FEWEST_DOMAINS = 10, 3
# Smallest mean typicality of the rows; that of rows of the training domains is about ½.
TYPICAL = 0.25
# Degrees of freedom of a variance that is practically known.
MANY = 1e6
# Expectation–maximisation ends after so many steps, or if no share changes by more.
STEPS, PRECISION = 2000, 1e-7
NO_ERROR = (
    "the model keeps no errors of held-out training domains; train linear, boosting, forest or"
    " best on at least three domains of ten rows or more"
)


def stored_arrays(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass with arrays as JSON values."""
    return {
        name: item.tolist() if isinstance(item, np.ndarray) else item
        for name, item in vars(value).items()
    }


@dataclass(frozen=True)
class Shares:
    """Estimated class shares of a new site [c] with 95% intervals, and those corrected to."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    used: np.ndarray


@dataclass(frozen=True)
class Adapted:
    """Probabilities of a new site [n, c], and how they were corrected.

    ``reason`` explains in one line why they were or were not corrected.  ``p_value`` is the p-value
    of the hypothesis that the class shares are those of training.
    """

    probabilities: np.ndarray
    corrected: bool
    reason: str
    shares: Shares | None = None
    p_value: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the probabilities, as JSON values."""
        values = {"corrected": self.corrected, "reason": self.reason, "p_value": self.p_value}
        return values | ({} if self.shares is None else {"shares": stored_arrays(self.shares)})


@dataclass(frozen=True)
class LabelShift:
    """What a model needs to correct for class shares; aggregates only.

    ``shares`` ρ [c] are those of its training rows, ``slope`` a and ``bias`` b [c] calibrate it,
    and ``error`` [c] is the root mean squared error of the estimated shares of the held-out
    ``domains``.  ``gap`` is their mean accuracy minus confidence, and ``gap_spread`` its standard
    deviation over domains (see `compare_sites`).
    """

    shares: np.ndarray
    slope: float
    bias: np.ndarray
    error: np.ndarray
    domains: int
    gap: float
    gap_spread: float

    def log_likelihood(self, probabilities: np.ndarray) -> np.ndarray:
        """Return log ℓ [n, c]; −∞ for a class absent from training."""
        return np.asarray(self.slope * log_ratio(probabilities, self.shares) + self.bias)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return stored_arrays(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> LabelShift:
        """Rebuild from JSON values that `model_file.check_header` has checked."""
        arrays = {name: np.array(stored[name], float) for name in ("shares", "bias", "error")}
        return cls(**{**stored, **arrays})


def label_shift(held_out: HeldOut) -> LabelShift | None:
    """Return what held-out training domains tell of class shares; None if they are too few."""
    errors, gaps = [], []
    for fold in np.unique(held_out.fold):
        slope, bias = held_out.calibrated(held_out.fold != fold)
        for domain in np.unique(held_out.domain[held_out.fold == fold]):
            rows = held_out.domain == domain
            if rows.sum() < FEWEST:
                continue
            predicted, y = held_out.predicted[rows], held_out.y[rows]
            estimate = em_shares(slope * held_out.ratios[rows] + bias)
            errors.append(estimate - class_shares(y, held_out.classes))
            gaps.append((predicted.argmax(axis=1) == y).mean() - predicted.max(axis=1).mean())
    if len(errors) < FEWEST_DOMAINS:
        return None
    slope, bias = held_out.calibrated(np.ones(len(held_out.y), dtype=bool))
    return LabelShift(
        class_shares(held_out.y, held_out.classes),
        slope,
        bias,
        np.sqrt(np.mean(np.square(errors), axis=0)),
        len(errors),
        float(np.mean(gaps)),
        float(np.std(gaps, ddof=1)),
    )


def checked_adapt(adapt: str) -> str:
    """Return the setting if it is valid, or raise."""
    if adapt not in ADAPT:
        raise InvalidValue(f"`adapt` must be auto or none, not {adapt!r}")
    return adapt


def adapted(
    known: LabelShift | None, probabilities: np.ndarray, typicality: np.ndarray | None = None
) -> Adapted:
    """Return the probabilities [n, c] of one new site, corrected for its class shares.

    ``typicality`` [n] is the typicality of its rows, if the model provides it.
    """
    n = len(probabilities)
    if known is None:
        return Adapted(probabilities, False, NO_ERROR)
    if n < FEWEST:
        return Adapted(probabilities, False, f"{n} rows are too few; {FEWEST} are needed")
    log_likelihood = known.log_likelihood(probabilities)
    estimate = em_shares(log_likelihood)
    variances = known.error**2 + sampling_variances(log_likelihood, known.shares)
    variance = float(variances.sum())
    between = max(float(np.square(known.error).sum()) / variance, 1e-9)
    freedom = min(known.domains / between**2, MANY)
    quantile = float(stdtrit(freedom, 1 - LEVEL / 2))
    distance = float(np.linalg.norm(estimate - known.shares))
    p_value = float(fdtrc(1, freedom, distance**2 / variance))
    typical = 0.5 if typicality is None else float(typicality.mean())
    beyond = max(1 - quantile * float(np.sqrt(variance)) / max(distance, 1e-12), 0.0)
    reason = (
        "its estimated class shares differ from those of training by"
        f" {'more' if beyond else 'no more'} than their error (p = {p_value:.2g})"
    )
    if typical < TYPICAL:
        beyond = 0.0
        reason = (
            "its rows are much less typical of the training domains than their own"
            f" ({typical:.2f} on average; at least {TYPICAL:g} is needed)"
        )
    used = known.shares + beyond * (estimate - known.shares)
    half = quantile * np.sqrt(variances)
    shares = Shares(estimate, np.maximum(estimate - half, 0), np.minimum(estimate + half, 1), used)
    if beyond:
        probabilities = reweighted(probabilities, known.shares, used)
    return Adapted(probabilities, beyond > 0, reason, shares, p_value)


def reweighted(probabilities: np.ndarray, shares: np.ndarray, used: np.ndarray) -> np.ndarray:
    """Return p(y|x) ∝ m(y|x) π(y) / ρ(y) [n, c], from shares ρ [c] to ``used`` π [c].

    >>> reweighted(np.array([[0.5, 0.5]]), np.array([0.5, 0.5]), np.array([0.8, 0.2])).tolist()
    [[0.8, 0.2]]
    """
    ratio = np.divide(used, shares, out=np.zeros_like(used), where=shares > 0)
    corrected = np.maximum(probabilities, SMALLEST) * ratio
    return np.asarray(corrected / corrected.sum(axis=1, keepdims=True))


def em_shares(log_likelihood: np.ndarray) -> np.ndarray:
    """Return the maximum likelihood class shares π [c] of rows with log ℓ [n, c].

    Three rows of one class and one of the other, all nearly certain:

    >>> sure = np.log([[0.999, 0.001], [0.999, 0.001], [0.999, 0.001], [0.001, 0.999]])
    >>> em_shares(sure).round(2).tolist()
    [0.75, 0.25]
    """
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    shares = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    for _ in range(STEPS):
        following = shares * (likelihood / (likelihood @ shares)[:, None]).mean(axis=0)
        done = np.abs(following - shares).max() < PRECISION
        shares = following
        if done:
            break
    return shares


def sampling_variances(log_likelihood: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return the sampling variance of each estimated share [c] of rows with log ℓ [n, c], at π = ρ.

    Certain rows of two equally frequent classes have the variance ρ (1 − ρ) / n:

    >>> sure = np.log([[1.0, 1e-9], [1e-9, 1.0]] * 50)
    >>> sampling_variances(sure, np.array([0.5, 0.5])).round(6).tolist()
    [0.0025, 0.0025]
    """
    known = shares > 0
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))[:, known]
    # Shares sum to 1: u has one direction less, and a direction without information any variance.
    directions = null_space(np.ones((1, known.sum())))
    u = likelihood / (likelihood @ shares[known])[:, None] @ directions
    variances = np.zeros(len(shares))
    information = u.T @ u + 1e-9 * np.eye(u.shape[1])
    variances[known] = np.diag(directions @ np.linalg.inv(information) @ directions.T)
    return variances
