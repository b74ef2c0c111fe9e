"""Samples as arrays, and the folds that hold out whole domains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from shiftproof.core.types import CROSS_ENTROPY
from shiftproof.data.tables.column_features import Column


@dataclass(frozen=True)
class Samples:
    """Rows of several domains as a learner takes them.

    ``x`` [n, d] float64: numbers as they are, categories as codes 0, 1, …, missing values as NaN.
    ``y`` [n] are classes 0 … ``classes`` − 1 or, where ``loss`` is one of numbers and ``classes``
    is 0, numbers in standard units, [n, k] of k targets.  ``domain`` [n] numbers the domains.
    ``categorical`` [d] says which columns hold codes.  ``class_names`` [classes] and, for a table
    whose columns have names, ``columns`` [d] say what the numbers stand for.  A model of
    ``private`` samples must not hold what tells of single rows.  ``within`` [n, d], if both views
    are to be judged, are the same rows standardised within their domains (`data.within_domain`).
    ``weight`` [n], above 0, says how much each row counts, if they do not count alike.
    """

    x: np.ndarray
    y: np.ndarray
    domain: np.ndarray
    classes: int
    categorical: np.ndarray
    class_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    private: bool = False
    within: np.ndarray | None = None
    loss: str = CROSS_ENTROPY
    weight: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def outputs(self) -> int:
        """How many numbers a prediction has: one for each class, or each target."""
        return self.classes or self.targets.shape[1]

    @property
    def targets(self) -> np.ndarray:
        """The labels that are numbers, one column a target, [n, k]."""
        return self.y.reshape(len(self.y), -1)

    def rows_by_domain(self) -> list[np.ndarray]:
        """Return the positions of the rows of each domain."""
        return [np.flatnonzero(self.domain == name) for name in np.unique(self.domain)]

    def only(self, rows: np.ndarray) -> Samples:
        """Return some of the rows, by a mask or positions."""
        within = None if self.within is None else self.within[rows]
        weight = None if self.weight is None else self.weight[rows]
        return replace(
            self,
            x=self.x[rows],
            y=self.y[rows],
            domain=self.domain[rows],
            within=within,
            weight=weight,
        )

    def weighted(self, weights: Sequence[np.ndarray]) -> Samples:
        """Return the same rows with weights, given domain by domain."""
        return replace(self, weight=np.concatenate(weights))

    def within_domains(self) -> Samples:
        """Return the rows standardised within their domains; the view must be there."""
        if self.within is None:
            raise ValueError("the samples have one view only")
        return replace(self, x=self.within, within=None)

    def weights(self) -> np.ndarray:
        """Return how much each row counts, with mean 1."""
        if self.weight is None:
            return np.ones(len(self))
        scaled: np.ndarray = self.weight / self.weight.mean()
        return scaled

    def balanced(self) -> np.ndarray:
        """Return sample weights that sum to 1 and give every domain the same share."""
        names, place = np.unique(self.domain, return_inverse=True)
        own = self.weights()
        weights: np.ndarray = own / (len(names) * np.bincount(place, own)[place])
        return weights


def held_out_folds(samples: Samples, most: int, seed: int) -> np.ndarray:
    """Number each row's fold: its domain, or a group of domains where there are more than ``most``.

    A single domain is cut into ``most`` random parts: nothing else can be held out.
    Groups hold about as many rows each.
    """
    names, place, counts = np.unique(samples.domain, return_inverse=True, return_counts=True)
    rng = np.random.default_rng(seed)
    if len(names) == 1:
        folds: np.ndarray = rng.permutation(np.arange(len(samples)) % most)
        return folds
    if len(names) <= most:
        return place
    # The largest first, each into the fold with the fewest rows so far.
    group, filled = np.empty(len(names), dtype=int), np.zeros(most)
    for domain in np.argsort(-counts, kind="stable"):
        group[domain] = filled.argmin()
        filled[group[domain]] += counts[domain]
    return group[place]
