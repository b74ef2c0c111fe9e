"""A column of a table, and the features made from it: scaled, one-hot, missing indicator."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

# A model file must not reveal single rows, so category values that fewer rows share are pooled, and
# columns with fewer values are left out.
FEWEST_ROWS = 10
# Standardised values are clipped to ± this many standard deviations, so that float32 networks stay
# finite.
FARTHEST = 1e6

Kind = Literal["number", "category"]


@dataclass(frozen=True)
class Column:
    """One column: its name, its kind and, for a category, its possible values.

    The values are sorted as text, so the order of those in the training samples does not depend on
    the other values.
    """

    name: str
    kind: Kind
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scaled:
    """A numeric column, imputed with `median`, then scaled to (x − `mean`) / `std`."""

    column: int
    median: float
    mean: float
    std: float

    def __post_init__(self) -> None:
        if not (all(map(math.isfinite, (self.median, self.mean, self.std))) and self.std > 0):
            raise ValueError(f"the scale of column {self.column} is not finite, or not positive")

    def names(self, column: Column) -> list[str]:
        """Return the names of the features."""
        return [column.name]

    def apply(self, x: np.ndarray) -> np.ndarray:
        """Impute and standardise `x` [n] to [n, 1]."""
        x = np.where(np.isnan(x), self.median, x)
        # Halved, so that the difference of two very large numbers does not overflow; dividing by a
        # very small number may, and the result is then clipped.
        with np.errstate(over="ignore"):
            scaled = (x / 2 - self.mean / 2) / (self.std / 2)
        bounded: np.ndarray = scaled.clip(-FARTHEST, FARTHEST)[:, None]
        return bounded


@dataclass(frozen=True)
class OneHot:
    """A categorical column, one-hot encoded."""

    column: int
    codes: tuple[int, ...]

    def names(self, column: Column) -> list[str]:
        """Return the names of the features."""
        return [f"{column.name}={column.values[code]}" for code in self.codes]

    def apply(self, x: np.ndarray) -> np.ndarray:
        """Encode `x` [n] as [n, categories]; an unknown or missing category is all zeros."""
        hot: np.ndarray = x[:, None] == np.array(self.codes)
        return hot


@dataclass(frozen=True)
class IsMissing:
    """A missing-value indicator: 1 where a column has no value."""

    column: int

    def names(self, column: Column) -> list[str]:
        """Return the names of the features."""
        return [f"{column.name} is missing"]

    def apply(self, x: np.ndarray) -> np.ndarray:
        """Return the indicator [n, 1] of missing values in `x` [n]."""
        marks: np.ndarray = np.isnan(x)[:, None]
        return marks


Part = Scaled | OneHot | IsMissing
PARTS: dict[str, type[Part]] = {"scaled": Scaled, "one-hot": OneHot, "is-missing": IsMissing}


def statistics(there: np.ndarray) -> tuple[float, float, float]:
    """Return the median, mean and standard deviation, computed without overflow."""
    exponent = int(np.frexp(np.abs(there).max())[1]) - 1
    small = np.ldexp(there, -exponent)  # within ±2; exact, because the factor is a power of two
    found = (np.median(small), small.mean(), small.std())
    median, mean, std = (float(np.ldexp(value, exponent)) for value in found)
    # The standard deviation of numbers near the smallest float may round to 0.
    return median, mean, max(std, float(np.finfo(np.float64).tiny))
