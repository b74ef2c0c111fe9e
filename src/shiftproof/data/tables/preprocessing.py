"""The columns of a table, and how they are made ready for a network.

A table is kept raw, one number a cell, so that nothing is learnt before it is known which samples
are trained on: numbers as they are, categories by their position among the column's values,
missing values as NaN.  `Columns` says which is which, and learns the rest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from shiftproof.core.errors import DataError
from shiftproof.data.base import FittedPreparation, Preparation
from shiftproof.data.tables.cell_types import counted, listed, named, shortened, texts, values

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

# The code of a category that the table the columns were made from does not hold.
_UNKNOWN = -1.0
# Standardised values are kept within ± this many standard deviations: what lies so far off tells
# no more than that, and a network in float32 stays finite.
FARTHEST = 1e6

Kind = Literal["number", "category"]


@dataclass(frozen=True)
class Column:
    """One column: its name, its kind and, of a category, the values it may have.

    The values are sorted as text: so the order of those that are trained on does not depend on
    which others there are.
    """

    name: str
    kind: Kind
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scaled:
    """A column of numbers: missing ones are ``median``, then (x − ``mean``) / ``std``."""

    column: int
    median: float
    mean: float
    std: float

    def names(self, column: Column) -> list[str]:
        """Return the names of what it makes."""
        return [column.name]

    def apply(self, x: np.ndarray) -> np.ndarray:
        """Standardise [n] to [n, 1]."""
        x = np.where(np.isnan(x), self.median, x)
        # Halved, so that the difference of two very large numbers is still a number; dividing by
        # a very small one may leave the range, which the bound then mends.
        with np.errstate(over="ignore"):
            scaled = (x / 2 - self.mean / 2) / (self.std / 2)
        bounded: np.ndarray = scaled.clip(-FARTHEST, FARTHEST)[:, None]
        return bounded


@dataclass(frozen=True)
class OneHot:
    """A column of categories, as 1 in the place of the one it is and 0 elsewhere."""

    column: int
    codes: tuple[int, ...]

    def names(self, column: Column) -> list[str]:
        """Return the names of what it makes."""
        return [f"{column.name}={column.values[code]}" for code in self.codes]

    def apply(self, x: np.ndarray) -> np.ndarray:
        """Spread [n] to [n, categories]; any other category, or none, is all zeros."""
        hot: np.ndarray = x[:, None] == np.array(self.codes)
        return hot


@dataclass(frozen=True)
class IsMissing:
    """1 where a column has no value."""

    column: int

    def names(self, column: Column) -> list[str]:
        """Return the names of what it makes."""
        return [f"{column.name} is missing"]

    def apply(self, x: np.ndarray) -> np.ndarray:
        """Mark [n] as [n, 1]."""
        marks: np.ndarray = np.isnan(x)[:, None]
        return marks


Part = Scaled | OneHot | IsMissing
_PARTS: dict[str, type[Part]] = {"scaled": Scaled, "one-hot": OneHot, "is-missing": IsMissing}


@dataclass(frozen=True)
class Columns(Preparation):
    """What the columns of a table hold, and how they are made ready for a network.

    ``missing_indicators`` adds, for each column with missing values among the training samples,
    one that says so.  It is off by default: a whole column that a hospital does not measure tells
    the hospital, not the patient, and that is what a model must not learn.
    """

    columns: tuple[Column, ...]
    missing_indicators: bool = False

    def encode(self, frame: pd.DataFrame, table: str = "the table") -> Tensor:
        """Return a table's cells as numbers, [rows, columns] of float64.

        The table may have more columns.  A category that is not among the column's values is
        unknown, which differs from missing.  Float64 keeps whole numbers apart up to 2⁵³, and
        values that float32 would call infinite.  ``table`` is what an error calls it.
        """
        frame = named(frame, table)
        absent = [column.name for column in self.columns if column.name not in frame]
        if absent:
            raise DataError(
                f"{table} lacks columns that are needed: {listed(absent)}; add them, empty where"
                " nothing is known"
            )
        x = np.empty((len(frame), len(self.columns)))
        for position, column in enumerate(self.columns):
            series = frame[column.name]
            if column.kind == "number":
                x[:, position] = values(series, f"column {shortened(column.name)} of {table}")
            else:
                known = {value: float(code) for code, value in enumerate(column.values)}
                codes, names = texts(series)
                x[:, position] = np.array([*(known.get(n, _UNKNOWN) for n in names), np.nan])[codes]
        return torch.from_numpy(x)

    def fit(self, x: Tensor) -> FittedColumns:
        """Learn from the samples that a run trains on: [n, columns], as `encode` gives them.

        Of a column of numbers, the median, mean and standard deviation of the values that are
        there; so its scale does not depend on how many are missing.  Of a category, which of its
        values occur.  A column without two different values among these samples is left out.
        """
        cells = self._cells(x)
        if np.isinf(cells).any():
            raise DataError("infinite values among the training samples; replace them")
        parts: list[Part] = []
        without: dict[str, list[str]] = {"no value": [], "only one value": []}
        for position, column in enumerate(self.columns):
            cell = cells[:, position].astype(np.float64)
            there = cell[~np.isnan(cell)]
            if len(there) == 0:
                without["no value"].append(column.name)
            elif (there == there[0]).all():
                without["only one value"].append(column.name)
            elif column.kind == "number":
                parts.append(Scaled(position, *_statistics(there)))
            else:
                seen = np.unique(there[there != _UNKNOWN]).astype(int)
                parts.append(OneHot(position, tuple(seen.tolist())))
            if self.missing_indicators and 0 < len(there) < len(cell):
                parts.append(IsMissing(position))
        if not parts:
            raise DataError(
                f"none of the {counted(len(self.columns), 'column')} has two different values among"
                f" the {counted(len(cells), 'training sample')}: there is nothing to learn from"
            )
        notes = [
            f"left out, with {what} among the training samples: {listed(names)}"
            for what, names in without.items()
            if names
        ]
        return FittedColumns(self, tuple(parts), tuple(notes))

    def digest(self) -> bytes:
        """Return a hash of the columns and how they are treated."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).digest()

    def _cells(self, x: Tensor) -> np.ndarray:
        cells: np.ndarray = x.cpu().numpy()
        if cells.ndim != 2 or cells.shape[1] != len(self.columns):
            raise DataError(
                f"samples of shape {tuple(cells.shape)} do not fit a table of"
                f" {counted(len(self.columns), 'column')}"
            )
        return cells


@dataclass(frozen=True)
class FittedColumns(FittedPreparation):
    """Columns with all that was learnt from the training samples."""

    columns: Columns
    parts: tuple[Part, ...]
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of what `apply` returns, in order."""
        made = [part.names(self.columns.columns[part.column]) for part in self.parts]
        return tuple(name for names in made for name in names)

    def apply(self, x: Tensor) -> Tensor:
        """Return cells [n, columns] as the network takes them, [n, features]; all are finite."""
        cells = self.columns._cells(x)
        ready = np.empty((len(cells), len(self.feature_names)), dtype=np.float32)
        start = 0
        for part in self.parts:
            made = part.apply(cells[:, part.column].astype(np.float64))
            ready[:, start : start + made.shape[1]] = made
            start += made.shape[1]
        return torch.from_numpy(ready)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values from which `from_json` rebuilds the fitted columns."""
        kinds = {cls: kind for kind, cls in _PARTS.items()}
        return {
            **asdict(self.columns),
            "parts": [{"kind": kinds[type(part)], **asdict(part)} for part in self.parts],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> FittedColumns:
        """Rebuild fitted columns, to the last bit."""
        columns = tuple(
            Column(column["name"], column["kind"], tuple(column["values"]))
            for column in value["columns"]
        )
        parts = []
        for part in value["parts"]:
            given: dict[str, Any] = {
                key: tuple(item) if isinstance(item, list) else item
                for key, item in part.items()
                if key != "kind"
            }
            parts.append(_PARTS[part["kind"]](**given))
        return cls(Columns(columns, value["missing_indicators"]), tuple(parts))


def _statistics(there: np.ndarray) -> tuple[float, float, float]:
    """Return median, mean and standard deviation; no sum or square on the way overflows."""
    exponent = int(np.frexp(np.abs(there).max())[1]) - 1
    small = np.ldexp(there, -exponent)  # within ±2, by a power of two: exact
    found = (np.median(small), small.mean(), small.std())
    median, mean, std = (float(np.ldexp(value, exponent)) for value in found)
    # Numbers at the very bottom of the range may differ by less than the range can tell.
    return median, mean, max(std, float(np.finfo(np.float64).tiny))
