"""`learners.encoding.encoder` as a torch module."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


class EncoderLayer(nn.Module):
    """`learners.encoding.encoder` as a layer: rows [n, d] → features [n, k].

    Each feature depends on one column.  It is the imputed column, an indicator of a code, or an
    indicator of missing values; numbers may be replaced by their ranks.  All features are shifted
    and scaled.
    """

    column: Tensor
    kind: Tensor
    fill: Tensor
    code: Tensor
    mean: Tensor
    scale: Tensor

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        self.ranks: RanksLayer | None = None
        features: list[tuple[float, ...]] = []  # column, kind, fill, code, mean, scale
        for name, pipeline, columns in encoder.transformers_:
            imputer, *between, last = (step for _, step in pipeline.steps)
            fills = imputer.statistics_
            if name == "numbers":
                indicated = imputer.indicator_.features_ if imputer.indicator_ else ()
                made = [(column, 0, fill, 0) for column, fill in zip(columns, fills, strict=True)]
                made += [(columns[place], 2, 0, 0) for place in indicated]
                scales = zip(last.mean_, last.scale_, strict=True)
                self.ranks = RanksLayer(between[0]) if between else None
                features += [(*one, *scale) for one, scale in zip(made, scales, strict=True)]
            else:
                features += [
                    (column, 1, fill, code, 0, 1)
                    for column, fill, codes in zip(columns, fills, last.categories_, strict=True)
                    for code in codes
                ]
        table = torch.tensor(np.array(features, dtype=np.float64))
        for name, values in zip(("column", "kind"), table[:, :2].long().unbind(1), strict=True):
            self.register_buffer(name, values)
        for name, values in zip(("fill", "code", "mean", "scale"), table[:, 2:].T, strict=True):
            self.register_buffer(name, values)

    def forward(self, rows: Tensor) -> Tensor:
        """Return the features of the rows."""
        x = rows[:, self.column]
        missing = x.isnan()
        filled = torch.where(missing, self.fill, x)
        equal = torch.eq(filled, self.code).double()
        marks = torch.where(self.kind == 1, equal, missing.double())
        features = torch.where(self.kind == 0, filled, marks)
        if self.ranks is not None:
            numbers = self.ranks.columns  # the numeric columns come first
            ranked = self.ranks(features[:, :numbers])
            features = torch.cat([ranked, features[:, numbers:]], dim=1)
        return (features - self.mean) / self.scale


class RanksLayer(nn.Module):
    """scikit-learn's `QuantileTransformer`: numbers [n, k] → ranks [n, k] in [0, 1].

    With quantiles q₁ ≤ … ≤ q_m at ranks r₁ < … < r_m, ranks between quantiles are interpolated.
    Equal quantiles span a range of ranks, whose midpoint is used: the mean of the interpolations
    from the last qⱼ ≤ x upward and from the first qⱼ ≥ x downward.
    """

    quantiles: Tensor
    references: Tensor

    def __init__(self, transformer: Any) -> None:
        super().__init__()
        self.columns = transformer.quantiles_.shape[1]
        self.register_buffer("quantiles", torch.tensor(transformer.quantiles_.T).contiguous())
        self.register_buffer("references", torch.tensor(transformer.references_))

    def forward(self, x: Tensor) -> Tensor:
        """Return the ranks."""
        apart = x[:, :, None] - self.quantiles
        below, above = (apart >= 0).sum(dim=2) - 1, (apart > 0).sum(dim=2)
        ranks = (self._between(x, below) + self._between(x, above - 1)) / 2
        ranks = torch.where(x >= self.quantiles[:, -1], 1.0, ranks)
        return torch.where(x <= self.quantiles[:, 0], 0.0, ranks)

    def _between(self, x: Tensor, left: Tensor) -> Tensor:
        """Interpolate between the quantiles `left` [n, k] and `left` + 1."""
        left = left.clamp(0, len(self.references) - 2)
        # Index into the flattened quantiles of all columns.
        offsets = torch.arange(self.columns) * len(self.references)
        flat = self.quantiles.flatten()
        low, high = flat[offsets + left], flat[offsets + left + 1]
        step = (self.references[left + 1] - self.references[left]) / (high - low)
        return step * (x - low) + self.references[left]
