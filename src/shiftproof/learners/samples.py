"""Samples as arrays, and the folds that hold out whole domains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from shiftproof.core.types import CROSS_ENTROPY
from shiftproof.data.tables.preprocessing import Column


@dataclass(frozen=True)
class Samples:
    """Rows of several domains, as input of a learner.

    ``x`` [n, d] is float64: raw numbers, categories as codes 0, 1, …, missing values as NaN.
    ``y`` [n] are classes 0 … ``classes`` − 1 or, for a regression loss (``classes`` is 0), numbers
    in standard units.  ``domain`` [n] are integer ids of the domains.
    ``categorical`` [d] marks the columns of codes.  ``class_names`` [classes] are the names of the
    classes, and ``columns`` [d] the columns of a table with named columns.  A model of ``private``
    samples must not reveal single rows.  ``weight`` [n] are sample weights above 0; without it, all
    rows have equal weight.  ``encoded`` are the features of the rows (`learners.encoding.encoded`).
    """

    x: np.ndarray
    y: np.ndarray
    domain: np.ndarray
    classes: int
    categorical: np.ndarray
    class_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    private: bool = False
    loss: str = CROSS_ENTROPY
    weight: np.ndarray | None = None
    encoded: dict[bool, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def outputs(self) -> int:
        """The number of values in a prediction: one per class, or one number."""
        return self.classes or 1

    def rows_by_domain(self) -> list[np.ndarray]:
        """Return the row indices of each domain."""
        return [np.flatnonzero(self.domain == name) for name in np.unique(self.domain)]

    def only(self, rows: np.ndarray) -> Samples:
        """Return a subset of the rows, given by a mask or indices."""
        weight = None if self.weight is None else self.weight[rows]
        return replace(
            self, x=self.x[rows], y=self.y[rows], domain=self.domain[rows], weight=weight
        )

    def weighted(self, weights: Sequence[np.ndarray]) -> Samples:
        """Return the same rows with sample weights, given domain by domain."""
        return replace(self, weight=np.concatenate(weights))

    def weights(self) -> np.ndarray:
        """Return the sample weights, scaled to mean 1."""
        if self.weight is None:
            return np.ones(len(self))
        scaled: np.ndarray = self.weight / self.weight.mean()
        return scaled

    def balanced(self) -> np.ndarray:
        """Return sample weights that sum to 1, with the same total for every domain."""
        names, domain = np.unique(self.domain, return_inverse=True)
        weights = self.weights()
        balanced: np.ndarray = weights / (len(names) * np.bincount(domain, weights)[domain])
        return balanced


def held_out_folds(samples: Samples, most: int, seed: int) -> np.ndarray:
    """Return each row's fold: its domain, or a group of domains if there are more than ``most``.

    Groups have about equal numbers of rows.  A single domain is split into ``most`` random parts.
    """
    names, codes, counts = np.unique(samples.domain, return_inverse=True, return_counts=True)
    rng = np.random.default_rng(seed)
    if len(names) == 1:
        folds: np.ndarray = rng.permutation(np.arange(len(samples)) % most)
        return folds
    if len(names) <= most:
        return codes
    # Largest domain first, each into the fold with the fewest rows so far.
    group, filled = np.empty(len(names), dtype=int), np.zeros(most)
    for domain in np.argsort(-counts, kind="stable"):
        group[domain] = filled.argmin()
        filled[group[domain]] += counts[domain]
    return group[codes]
