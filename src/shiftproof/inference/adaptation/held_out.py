"""Predictions for held-out training domains, used to judge adaptation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from shiftproof.data.domain import as_array
from shiftproof.inference.adaptation.label_shift import fit_calibration, log_ratio

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
        found = np.empty_like(self.predicted)
        for domain in self.domains:
            rows = self.domain == domain
            found[rows] = class_shares(self.y[rows], self.classes)
        return found

    def mean_shares(self, rows: np.ndarray) -> np.ndarray:
        """Return the class shares [c] of the given rows, with equal weight for every domain."""
        domain, shares = self.domain[rows], self.domain_shares[rows]
        _, first = np.unique(domain, return_index=True)
        found: np.ndarray = shares[first].mean(axis=0)
        return found

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
