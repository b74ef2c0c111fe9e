"""Encoding raw rows for models that need numeric inputs: linear models and forests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from shiftproof.data.tables.preprocessing import FEWEST_ROWS
from shiftproof.learners.array_model import LARGEST, ArrayModel, Part, require
from shiftproof.learners.samples import Samples

# Quantiles of the estimated ranks: few enough that many rows share each one, because a model file
# must not reveal the values of single rows.
MOST_QUANTILES = 100
ROWS_A_QUANTILE = 5
# The code of a missing category; -1 is an unknown category.
MISSING = -2.0


@dataclass(frozen=True, eq=False)
class Encoder(ArrayModel):
    """Raw rows [n, columns] → features [n, k]: imputed, standardised and one-hot encoded.

    Missing values of the columns `numbers` become their medians `fills`, and an indicator marks
    those of the columns `indicated`: which tests a site does is informative about the patient as
    well as the site, and held-out domains show whether that helps.  Both are replaced by their
    ranks among the training rows, in [0, 1], if there are `quantiles` [quantiles, scaled], which
    removes long tails and units of measurement.  Then they are scaled with `mean` and `scale`.
    Each pair `hot` of a column and a code is a feature; a missing category has a code of its own,
    and an unseen category is all zeros.
    """

    numbers: Annotated[np.ndarray, Part("i8", ("numbers",), below="columns")]
    fills: Annotated[np.ndarray, Part("f8", ("numbers",))]
    indicated: Annotated[np.ndarray, Part("i8", ("indicators",), below="columns")]
    quantiles: Annotated[np.ndarray, Part("f8", ("quantiles", "scaled"))]
    mean: Annotated[np.ndarray, Part("f8", ("scaled",))]
    scale: Annotated[np.ndarray, Part("f8", ("scaled",))]
    hot_columns: Annotated[np.ndarray, Part("i8", ("categories",), below="columns")]
    hot_codes: Annotated[np.ndarray, Part("f8", ("categories",))]

    @classmethod
    def fit(cls, samples: Samples, *, ranks: bool = False) -> Encoder:
        """Fit to samples.

        With sample weights, medians, means and variances are weighted, so that a row of weight 2
        equals the row given twice.  Ranks are unweighted.
        """
        from sklearn.preprocessing import StandardScaler

        numbers = np.flatnonzero(~samples.categorical)
        rows, known = samples.x[:, numbers], ~np.isnan(samples.x[:, numbers])
        weights: Any = np.ones(len(samples)) if samples.weight is None else samples.weight
        fills = [
            weighted_median(rows[there, column], weights[there]) if there.any() else 0.0
            for column, there in enumerate(known.T)
        ]
        hot = [
            (column, code)
            for column in np.flatnonzero(samples.categorical)
            for code in np.unique(_codes(samples.x[:, column]))
        ]
        columns, codes = np.array(hot, dtype=np.float64).reshape(-1, 2).T
        indicated = numbers[~known.all(axis=0)]
        none = np.empty((0, len(numbers) + len(indicated)))
        unit = (np.zeros(none.shape[1]), np.ones(none.shape[1]))
        imputing = cls(
            numbers, np.array(fills), indicated, none, *unit, columns.astype(np.int64), codes
        )
        scaled = imputing.numeric_features(samples.x)
        quantiles = none
        if ranks:
            count = int(np.clip(len(samples) // ROWS_A_QUANTILE, 2, MOST_QUANTILES))
            plain = imputing
            if samples.weight is not None:
                plain = cls.fit(replace(samples, weight=None))
            ranked = plain.numeric_features(samples.x)
            quantiles = smooth_quantiles(ranked, min(count, len(samples)))
            scaled = ranks_among(quantiles, scaled)
        scaler = StandardScaler()
        if scaled.shape[1]:
            weights = None if samples.weight is None else samples.weights()
            scaler.fit(scaled, sample_weight=weights)
            unit = (scaler.mean_, scaler.scale_)
        return replace(imputing, quantiles=quantiles, mean=unit[0], scale=unit[1])

    @property
    def width(self) -> int:
        """The number of features."""
        return len(self.mean) + len(self.hot_codes)

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise `ValueError` unless the arrays fit each other."""
        require(len(self.mean) == len(self.numbers) + len(self.indicated), "mean has a wrong size")
        require((self.scale >= 1 / LARGEST).all(), f"scale must be at least {1 / LARGEST:g}")
        require((np.diff(self.quantiles, axis=0) >= 0).all(), "quantiles must be sorted")

    def transform(self, x: np.ndarray) -> np.ndarray:
        """Return the features of raw rows."""
        numeric = self.numeric_features(x)
        if len(self.quantiles):
            numeric = ranks_among(self.quantiles, numeric)
        hot = _codes(x[:, self.hot_columns]) == self.hot_codes
        return np.ascontiguousarray(np.hstack([(numeric - self.mean) / self.scale, hot]))

    def numeric_features(self, x: np.ndarray) -> np.ndarray:
        """Return the imputed numbers and the indicators of missing values, before scaling."""
        rows = x[:, self.numbers]
        imputed = np.where(np.isnan(rows), self.fills, rows)
        return np.hstack([imputed, np.isnan(x[:, self.indicated])])


def encoded(samples: Samples, *, ranks: bool = False) -> tuple[Encoder, np.ndarray]:
    """Return the encoder fitted to samples, and their features; both are computed once."""
    known: dict[bool, tuple[Encoder, np.ndarray]] = samples.encoded
    if ranks not in known:
        encoder = Encoder.fit(samples, ranks=ranks)
        known[ranks] = encoder, encoder.transform(samples.x)
    return known[ranks]


def _codes(cells: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(cells), MISSING, cells)


def weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    """Return the weighted median of values [n], for weights [n] above 0.

    If two values split the weight in half, it is their mean, as for repeated values.

    >>> weighted_median(np.array([3.0, 1.0, 2.0]), np.array([1.0, 2.0, 1.0]))
    1.5
    """
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order])
    half = below[-1] / 2
    first, second = (np.searchsorted(below, half, side) for side in ("left", "right"))
    return float(values[order[[first, second]]].mean())


def smooth_quantiles(x: np.ndarray, count: int) -> np.ndarray:
    """Return `count` quantiles of each column of x [n, d] that do not reveal single rows.

    The quantile at level q of n sorted values x₁ ≤ … ≤ xₙ is the mean of the `FEWEST_ROWS` of them
    around position 1 + q (n − 1), or of the first or last ones.  So there is no minimum or
    maximum, which would be the value of a single row.  Values shared by many rows are kept.
    """
    ordered = np.sort(x, axis=0)
    size = min(FEWEST_ROWS, len(ordered))
    middle = np.linspace(0, 1, count) * (len(ordered) - 1)
    start = np.round(middle - (size - 1) / 2).astype(int).clip(0, len(ordered) - size)
    near = np.lib.stride_tricks.sliding_window_view(ordered, size, axis=0)[start]
    # Rounding may move a mean out of the range of its values, and equal values must stay equal.
    means = near.mean(axis=-1).clip(near[..., 0], near[..., -1])
    quantiles: np.ndarray = np.maximum.accumulate(means, axis=0)
    return quantiles


def ranks_among(quantiles: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the ranks in [0, 1] of x [n, d] among quantiles [m, d], as scikit-learn does.

    Ranks between quantiles are interpolated.  Equal quantiles span a range of ranks, whose
    midpoint is used; but the lowest quantile and less have rank 0, and the highest and more 1.
    """
    levels = np.linspace(0, 1, len(quantiles))
    ranks = np.empty(x.shape, order="F")
    for column, (values, points) in enumerate(zip(x.T, quantiles.T, strict=True)):
        upward = np.interp(values, points, levels)
        downward = np.interp(-values, -points[::-1], -levels[::-1])
        ranks[:, column] = (upward - downward) / 2
    return np.where(x <= quantiles[0], 0.0, np.where(x >= quantiles[-1], 1.0, ranks))
