"""Ranks among the training rows, by quantiles that do not reveal single rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.preprocessing import QuantileTransformer  # type: ignore[import-untyped]

from shiftproof.data.tables.preprocessing import FEWEST_ROWS


class SmoothRanks(QuantileTransformer):  # type: ignore[misc]
    """scikit-learn's `QuantileTransformer`, whose quantiles are means of neighbouring rows.

    The quantile at level q of n sorted values x₁ ≤ … ≤ xₙ is the mean of the `FEWEST_ROWS` of them
    around position 1 + q (n − 1), or of the first or last ones.  So a model file contains no
    minimum or maximum, which would be the value of a single row.  Values shared by many rows are
    kept.
    """

    def fit(self, x: np.ndarray, y: Any = None) -> SmoothRanks:
        """Fit to rows [n, d] without missing values."""
        super().fit(x)
        ordered = np.sort(np.asarray(x, dtype=np.float64), axis=0)
        size = min(FEWEST_ROWS, len(ordered))
        middle = self.references_ * (len(ordered) - 1)
        start = np.round(middle - (size - 1) / 2).astype(int).clip(0, len(ordered) - size)
        near = np.lib.stride_tricks.sliding_window_view(ordered, size, axis=0)[start]
        # Rounding may move a mean out of the range of its values, and equal values must stay equal.
        means = near.mean(axis=-1).clip(near[..., 0], near[..., -1])
        self.quantiles_ = np.maximum.accumulate(means, axis=0)
        return self
