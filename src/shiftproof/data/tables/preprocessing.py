"""Preprocess the columns of a table: encode cells as numbers, then impute, scale, one-hot encode.

Tables are stored raw, one number per cell: numbers unchanged, categories as indices into the
column's values, missing values as NaN.  Statistics (medians, means, scales, which categories occur)
are learnt later, from the training samples only.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np

from shiftproof.core.errors import DataError
from shiftproof.core.json_values import rebuilt
from shiftproof.core.text import counted, listed, quoted
from shiftproof.data.tables.cell_types import cells_of
from shiftproof.data.tables.read import as_table

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

    kind: Literal["scaled"] = field(default="scaled", kw_only=True)
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

    kind: Literal["one-hot"] = field(default="one-hot", kw_only=True)
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

    kind: Literal["is-missing"] = field(default="is-missing", kw_only=True)
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
    scaled = (np.median(small), small.mean(), small.std())
    median, mean, std = (float(np.ldexp(value, exponent)) for value in scaled)
    # The standard deviation of numbers near the smallest float may round to 0.
    return median, mean, max(std, float(np.finfo(np.float64).tiny))


# The code of a category that is not among the column's values.
_UNKNOWN = -1.0
# The largest float32 number.
LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Columns:
    """The columns of a table, and how they become features.

    `missing_indicators` adds a missing-value indicator for each column with missing values among
    the training samples.  It is off by default: a value that one hospital never measures identifies
    the hospital, not the patient, which a model should not learn.
    """

    columns: tuple[Column, ...]
    missing_indicators: bool = False

    @property
    def are_categories(self) -> np.ndarray:
        """A mask [columns] of the columns that hold category codes."""
        return np.array([column.kind == "category" for column in self.columns], dtype=bool)

    def encode(self, frame: Any, table: str = "the table") -> np.ndarray:
        """Encode the cells of a table as float64 [rows, columns].

        Other columns of the table are ignored.  A category that is not among the column's values is
        unknown, which differs from missing.  Float64 represents whole numbers up to 2⁵³ exactly,
        and values that overflow float32.  `table` names the table in errors.
        """
        rows = as_table(frame, table)
        there = set(rows.column_names)
        absent = [column.name for column in self.columns if column.name not in there]
        if absent:
            raise DataError(
                f"{table} is missing columns that the model needs: {listed(absent)}; add them, with"
                " empty cells where the value is unknown"
            )
        x = np.empty((len(rows), len(self.columns)))
        for position, column in enumerate(self.columns):
            cells = cells_of(rows, column.name)
            if column.kind == "number":
                x[:, position] = cells.numbers(f"column {quoted(column.name)} of {table}")
            else:
                known = {value: float(code) for code, value in enumerate(column.values)}
                codes, names = cells.texts
                x[:, position] = np.array([*(known.get(n, _UNKNOWN) for n in names), np.nan])[codes]
        return x

    def fit(self, x: np.ndarray) -> FittedColumns:
        """Fit to the training samples `x` [n, columns], as returned by `encode`.

        A numeric column is described by the median, mean and standard deviation of its non-missing
        values, so its scale does not depend on how many are missing.  A categorical column keeps
        the values that at least `FEWEST_ROWS` samples share; all other values are pooled as
        unknown.  A column with fewer than two distinct values, or too few values, among these
        samples is left out.
        """
        if np.isinf(x).any():
            raise DataError("infinite values among the training samples; replace them")
        parts: list[Part] = []
        few = f"fewer than {FEWEST_ROWS} values"
        shared = f"no value in {FEWEST_ROWS} or more rows"
        without: dict[str, list[str]] = {"no value": [], "only one value": [], few: [], shared: []}
        pooled: dict[str, int] = {}
        for position, column in enumerate(self.columns):
            cell = x[:, position].astype(np.float64)
            there = cell[~np.isnan(cell)]
            if len(there) == 0:
                without["no value"].append(column.name)
            elif (there == there[0]).all():
                without["only one value"].append(column.name)
            elif column.kind == "number":
                if len(there) < FEWEST_ROWS <= len(x):
                    without[few].append(column.name)
                else:
                    parts.append(Scaled(position, *statistics(there)))
            else:
                seen, counts = np.unique(there[there != _UNKNOWN], return_counts=True)
                common = seen[counts >= FEWEST_ROWS].astype(int)
                if len(common) == 0:
                    without[shared].append(column.name)
                else:
                    parts.append(OneHot(position, tuple(common.tolist())))
                    if rare := len(seen) - len(common):
                        pooled[column.name] = rare
            if self.missing_indicators and 0 < len(there) < len(cell):
                parts.append(IsMissing(position))
        if not parts:
            raise DataError(
                f"none of the {counted(len(self.columns), 'column')} has two distinct values among"
                f" the {counted(len(x), 'training sample')}: there is nothing to learn from"
            )
        notes = [
            f"left out, with {what} among the training samples: {listed(names)}"
            for what, names in without.items()
            if names
        ]
        if pooled:
            counts_of = ", ".join(f"{quoted(name)} {rare}" for name, rare in pooled.items())
            notes.append(
                f"pooled values with fewer than {FEWEST_ROWS} training samples each (number per"
                f" column): {counts_of}"
            )
        # Values that no feature uses occur in few training samples or only in held-out ones, and
        # are encoded as unknown.  An empty string, which no cell contains, keeps the codes.
        used = {part.column: set(part.codes) for part in parts if isinstance(part, OneHot)}
        columns = []
        for position, column in enumerate(self.columns):
            codes = used.get(position, ())
            values = (value if code in codes else "" for code, value in enumerate(column.values))
            columns.append(replace(column, values=tuple(values)))
        without_rare = replace(self, columns=tuple(columns))
        return FittedColumns(without_rare, tuple(parts), tuple(notes))

    def digest(self) -> bytes:
        """Return a hash of the columns and how they are treated."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).digest()


@dataclass(frozen=True)
class FittedColumns:
    """Columns fitted to the training samples."""

    columns: Columns
    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for part in self.parts:
            if part.column not in range(len(self.columns.columns)):
                raise ValueError(f"column {part.column} of {len(self.columns.columns)}")
            known = range(len(self.columns.columns[part.column].values))
            if isinstance(part, OneHot) and not set(part.codes) <= set(known):
                raise ValueError(f"a code of column {part.column} is not one of {len(known)}")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features that `apply` returns, in order."""
        columns = self.columns.columns
        return tuple(name for part in self.parts for name in part.names(columns[part.column]))

    def apply(self, x: np.ndarray) -> np.ndarray:
        """Transform cells [n, columns] to float32 features [n, features], all finite."""
        ready = np.empty((len(x), len(self.feature_names)), dtype=np.float32)
        start = 0
        for part in self.parts:
            features = part.apply(x[:, part.column].astype(np.float64))
            ready[:, start : start + features.shape[1]] = features
            start += features.shape[1]
        return ready

    def pooled(self, x: np.ndarray) -> np.ndarray:
        """Return cells [n, columns], of the same dtype, for a model that uses raw cells.

        Category values that no feature uses become unknown, and numeric columns that are left out
        become missing, so that the model does not learn from them.  Numbers are clipped to the
        range of float32, in which such a model computes.
        """
        cells = x.copy()
        used = {part.column: part for part in self.parts if not isinstance(part, IsMissing)}
        for position, column in enumerate(self.columns.columns):
            part, cell = used.get(position), cells[:, position]
            if column.kind == "number":
                if part is None:
                    cell[:] = np.nan
                np.clip(cell, -LARGEST, LARGEST, out=cell)
            else:
                codes = part.codes if isinstance(part, OneHot) else ()
                cell[~np.isnan(cell) & ~np.isin(cell, codes)] = _UNKNOWN
        return cells

    def to_json(self) -> dict[str, Any]:
        """Return JSON values from which `from_json` rebuilds the fitted columns."""
        stored = asdict(self)
        return {**stored.pop("columns"), **stored}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> FittedColumns:
        """Rebuild fitted columns exactly; other keys are ignored."""
        columns = {key: value[key] for key in ("columns", "missing_indicators")}
        stored = {"columns": columns, "parts": value["parts"], "notes": value.get("notes", [])}
        fitted: FittedColumns = rebuilt(cls, stored)
        return fitted


MOST_VALUES = 5


def unseen_notes(columns: Columns, table: Any) -> Iterator[str]:
    """Yield a note for each column with values that are new or were rare in training."""
    for column in columns.columns:
        if column.kind != "category" or column.name not in table.column_names:
            continue
        codes, names = cells_of(table, column.name).texts
        new = [code for code, name in enumerate(names) if name not in column.values]
        if new:
            rows = int(np.isin(codes, new).sum())
            order = sorted(new, key=lambda code: (-int((codes == code).sum()), names[code]))
            values = listed([names[code] for code in order], MOST_VALUES)
            yield (
                f"column {quoted(column.name)} has values that the model did not learn from, in"
                f" {counted(rows, 'row')}: {values}; it treats them as unknown"
            )
