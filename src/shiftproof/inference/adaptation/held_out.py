"""Predictions for held-out training domains, and their calibration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import minimize  # type: ignore[import-untyped]
from scipy.special import log_softmax  # type: ignore[import-untyped]

from shiftproof.data.domain import as_array

SMALLEST = 1e-7
# Bounds: slopes from 1/e³ to e³, biases to ±10.  Beyond, classes are separated and any value fits.
STEEPEST, LARGEST_BIAS = 3.0, 10.0
_STORED = ("predicted", "y", "domain", "fold")


@dataclass(frozen=True)
class HeldOut:
    """Rows of training domains, each predicted by a model that was not trained on its domain.

    The rows have probabilities ``predicted`` [n, c], classes ``y`` [n], ``domain`` [n] and ``fold``
    [n].  The model that predicted a row was trained on the rows of the other folds.
    """

    predicted: np.ndarray
    y: np.ndarray
    domain: np.ndarray
    fold: np.ndarray

    @classmethod
    def from_state(cls, modules: Mapping[str, Any]) -> HeldOut | None:
        """Return the rows stored in a checkpoint (`learners.exact.held_out_arrays`), if any."""
        if "held_out.predicted" not in modules:
            return None
        own = {name: as_array(modules[f"held_out.{name}"]) for name in _STORED}
        return cls(own["predicted"].astype(float), own["y"], own["domain"], own["fold"])

    @property
    def classes(self) -> int:
        """The number of classes."""
        return int(self.predicted.shape[1])

    @cached_property
    def domains(self) -> np.ndarray:
        """The numbers of the domains, in order."""
        found: np.ndarray = np.unique(self.domain)
        return found

    @cached_property
    def weights(self) -> np.ndarray:
        """Row weights [n] that give every domain the same total weight."""
        _, place, counts = np.unique(self.domain, return_inverse=True, return_counts=True)
        found: np.ndarray = 1 / (len(counts) * counts[place])
        return found

    @cached_property
    def trained_shares(self) -> np.ndarray:
        """The class shares ρ [n, c] in the training rows of the model that predicted each row."""
        found = np.empty_like(self.predicted)
        for fold in np.unique(self.fold):
            found[self.fold == fold] = class_shares(self.y[self.fold != fold], self.classes)
        return found

    @cached_property
    def ratios(self) -> np.ndarray:
        """The logarithms of m(y|x) / ρ(y), [n, c]."""
        return log_ratio(self.predicted, self.trained_shares)

    @cached_property
    def domain_shares(self) -> np.ndarray:
        """The class shares of the domain of each row, [n, c]."""
        _, index, rows = np.unique(self.domain, return_inverse=True, return_counts=True)
        counts = np.zeros((len(rows), self.classes))
        np.add.at(counts, (index, self.y), 1)
        shares: np.ndarray = (counts / rows[:, None])[index]
        return shares

    def calibrated(self, rows: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the slope and biases fitted to the given rows, weighting all domains equally."""
        weights = self.weights[rows]
        with np.errstate(divide="ignore"):
            offsets = np.log(self.domain_shares[rows])
        return fit_calibration(self.ratios[rows], self.y[rows], offsets, weights / weights.sum())


def class_shares(y: np.ndarray, classes: int) -> np.ndarray:
    """Return the share of each class, [classes].

    >>> class_shares(np.array([0, 0, 0, 1]), 3).tolist()
    [0.75, 0.25, 0.0]
    """
    found: np.ndarray = np.bincount(y, minlength=classes) / len(y)
    return found


def log_ratio(probabilities: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return log(m(y|x) / ρ(y)) [n, c], for ``shares`` ρ [c] or [n, c]; −∞ where ρ is 0."""
    shares = np.broadcast_to(shares, probabilities.shape)
    ratio = np.maximum(probabilities, SMALLEST) / np.where(shares > 0, shares, 1)
    found: np.ndarray = np.where(shares > 0, np.log(ratio), -np.inf)
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
