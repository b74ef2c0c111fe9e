"""Class shares of a new site estimated without labels, and probabilities corrected for them.

Under label shift, the class shares π of a new site differ from training, and p(x|y) is the same.
A model with probabilities m(y|x), trained on rows with class shares ρ, then gives p(x|y) up to a
factor that depends on x only: m(y|x) / ρ(y).  At a site with shares π, therefore,

    p(y|x) ∝ π(y) · ℓ(y|x),     ℓ(y|x) = exp(a · log(m(y|x) / ρ(y)) + b(y)).

The slope a and the biases b calibrate the probabilities of the model: *bias-corrected temperature
scaling*.  They are fitted to held-out training domains, each with its own known shares π_d, because
these differ as those of a new site do.

The shares maximise the likelihood Σ_i log Σ_y π(y) ℓ(y|x_i), by expectation–maximisation.  *Black
box shift estimation* gives a second estimate from the predicted classes alone: their frequencies q
at the new site and the rates C of each predicted class within each true class give π = C⁻¹ q.

References: Saerens et al. (2002), *Adjusting the outputs of a classifier to new a priori
probabilities*; Alexandari et al. (2020), *Maximum likelihood with bias-corrected calibration is
hard-to-beat at label shift adaptation*; Lipton et al. (2018), *Detecting and correcting for label
shift with black box predictors*.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize  # type: ignore[import-untyped]
from scipy.special import log_softmax, softmax  # type: ignore[import-untyped]

from shiftproof.learners.stacking import mixture_proportions

SMALLEST = 1e-7
# Bounds: slopes from 1/e³ to e³, biases to ±10.  Beyond, classes are separated and any value fits.
STEEPEST, LARGEST_BIAS = 3.0, 10.0


class Calibration(NamedTuple):
    """Map from the probabilities of a model to likelihoods ℓ(y|x): ``slope`` a, ``bias`` b [c].

    ``shares`` ρ [c] are the class shares of the model's training rows.
    """

    slope: float
    bias: np.ndarray
    shares: np.ndarray

    def log_likelihood(self, probabilities: np.ndarray) -> np.ndarray:
        """Return log ℓ [n, c]; −∞ for a class absent from training."""
        found: np.ndarray = self.slope * log_ratio(probabilities, self.shares) + self.bias
        return found

    def corrected(self, probabilities: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """Return the probabilities [n, c] at a site with these class shares."""
        return weighted(self.log_likelihood(probabilities), shares)


def log_ratio(probabilities: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return log(m(y|x) / ρ(y)) [n, c], for ``shares`` ρ [c] or [n, c]; −∞ where ρ is 0."""
    shares = np.broadcast_to(shares, probabilities.shape)
    ratio = np.maximum(probabilities, SMALLEST) / np.where(shares > 0, shares, 1)
    found: np.ndarray = np.where(shares > 0, np.log(ratio), -np.inf)
    return found


def weighted(log_likelihood: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return p(y|x) ∝ π(y) ℓ(y|x), [n, c]."""
    with np.errstate(divide="ignore"):
        found: np.ndarray = softmax(log_likelihood + np.log(shares), axis=1)
    return found


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
    n, c = ratios.shape
    rows = np.arange(n)
    usable = np.isfinite(ratios) & np.isfinite(offsets)
    x = np.where(np.isfinite(ratios), ratios, np.log(SMALLEST))
    base = np.where(usable, offsets, -np.inf)
    occurs = np.bincount(y, minlength=c) > 0

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        logits = base + values[0] * x + np.where(occurs, values[1:], 0)
        logs = log_softmax(logits, axis=1)
        residual = weights[:, None] * np.exp(logs)
        residual[rows, y] -= weights
        gradient = np.concatenate([[(residual * x).sum()], residual.sum(axis=0) * occurs])
        return -float(weights @ logs[rows, y]), gradient

    bounds = [(np.exp(-STEEPEST), np.exp(STEEPEST))] + [(-LARGEST_BIAS, LARGEST_BIAS)] * c
    start = np.concatenate([[1.0], np.zeros(c)])
    found = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B")
    bias = np.where(occurs, found.x[1:] - found.x[1:][occurs].mean(), 0)
    return float(found.x[0]), bias


def em_shares(log_likelihood: np.ndarray) -> np.ndarray:
    """Return the maximum likelihood class shares π [c] of rows with log ℓ [n, c].

    Three rows of one class and one of the other, all nearly certain:

    >>> sure = np.log([[0.999, 0.001], [0.999, 0.001], [0.999, 0.001], [0.001, 0.999]])
    >>> em_shares(sure).round(2).tolist()
    [0.75, 0.25]
    """
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    n = len(likelihood)
    return mixture_proportions(np.ascontiguousarray(likelihood.T), np.full(n, 1 / n))


def bbse_shares(predicted: np.ndarray, rates: np.ndarray) -> np.ndarray | None:
    """Return the class shares π [c] with C π = q, clipped to the simplex; None if C is singular.

    ``predicted`` [n] are predicted classes, and ``rates`` C [predicted, true] are the rates of each
    predicted class within each true class, whose columns sum to 1.

    >>> bbse_shares(np.array([0, 0, 1, 1]), np.array([[0.9, 0.3], [0.1, 0.7]])).round(3).tolist()
    [0.333, 0.667]
    """
    known = rates.sum(axis=0) > 0
    frequencies = np.bincount(predicted, minlength=len(rates)) / len(predicted)
    own = rates[np.ix_(known, known)]
    if np.linalg.cond(own) > 1 / np.sqrt(np.finfo(float).eps):
        return None
    found = np.zeros(len(rates))
    found[known] = np.maximum(np.linalg.solve(own, frequencies[known]), 0)
    total = found.sum()
    return found / total if total > 0 else None
