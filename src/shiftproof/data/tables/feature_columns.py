"""Select the columns of a table that can be features; notes name every column left out."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from shiftproof.core.errors import DataError
from shiftproof.core.text import counted, listed, quoted
from shiftproof.data.tables.cell_types import kind_of, texts
from shiftproof.data.tables.column_features import Column
from shiftproof.data.tables.groups import Groups, is_number, one_to_one
from shiftproof.data.tables.label_kind import FEW

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

# A text column with more distinct values, or with mostly distinct ones, is not a category.
MOST_CATEGORIES = 256


def feature_columns(features: pd.DataFrame, table: str) -> tuple[tuple[Column, ...], list[str]]:
    """Return the columns that can be features, and notes on the others."""
    chosen: list[Column] = []
    left_out: dict[str, list[str]] = {}
    notes = []
    for name in features.columns:
        series = features[name]
        kind = kind_of(series)
        if kind == "category":
            codes, found = texts(series)
            if len(found) > MOST_CATEGORIES or (
                len(found) > FEW and 2 * len(found) > (codes >= 0).sum()
            ):
                left_out.setdefault("text with too many distinct values", []).append(name)
                continue
            if all(map(is_number, found)) and series.dtype != "category":
                notes.append(
                    f"column {quoted(name)} holds numbers as text; they are taken as categories"
                )
            notes += _stray_words(series, codes, found, name)
            chosen.append(Column(name, "category", tuple(sorted(found))))
        elif kind == "number":
            if _counts_rows(series):
                left_out.setdefault("row numbers", []).append(name)
                continue
            chosen.append(Column(name, "number"))
        else:
            why = {"date": "dates; turn them into numbers to use them", "empty": "no values"}
            left_out.setdefault(why.get(kind, "neither numbers nor text"), []).append(name)
    notes = [f"left out, {why}: {listed(names)}" for why, names in left_out.items()] + notes
    if not chosen:
        raise DataError("; ".join([f"{table} has no column to learn from", *notes]))
    return tuple(chosen), notes


def copies_of_label_or_domain(
    columns: tuple[Column, ...], x: np.ndarray, groups: Groups, unasked: Collection[str] = ()
) -> list[str]:
    """Return notes on columns, except `unasked` ones, that determine the label or the domain.

    A numeric column determines a numeric label if one is a linear function of the other: any two
    columns of distinct numbers are one-to-one.
    """
    kept = groups.domain >= 0
    labels = groups.label.reshape(len(kept), -1).T
    same_label = _proportional if groups.targets else one_to_one
    names = [f"label {quoted(t)}" for t in groups.targets] if len(groups.targets) > 1 else ["label"]
    notes = []
    for position, column in enumerate(columns):
        if column.name in unasked:
            continue
        for what, codes, same in (
            *((name, own, same_label) for name, own in zip(names, labels, strict=True)),
            ("domain", groups.domain, one_to_one),
        ):
            if same(x[kept, position], codes[kept]):
                notes.append(
                    f"column {quoted(column.name)} determines the {what} exactly; if it is a copy,"
                    f" drop it: `drop={[column.name]!r}`"
                )
    return notes


def _proportional(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether one column is a linear function of the other, up to rounding."""
    known = ~np.isnan(one)
    if known.sum() < 3 or np.ptp(one[known]) == 0 or np.ptp(other[known]) == 0:
        return False
    return bool(abs(np.corrcoef(one[known], other[known])[0, 1]) > 1 - 1e-12)


def _stray_words(series: pd.Series, codes: np.ndarray, found: list[str], name: str) -> list[str]:
    """Return a note on a column that would be numeric except for a few values."""
    words = [code for code, text in enumerate(found) if not is_number(text)]
    astray = np.isin(codes, words)
    there = int((codes >= 0).sum())
    if not words or 2 * astray.sum() > there or series.dtype == "category":
        return []
    row = int(np.flatnonzero(astray)[0])
    return [
        f"column {quoted(name)} is taken as {len(found)} categories because"
        f" {counted(int(astray.sum()), 'value')} of {there} cannot be read as a number, the first"
        f" in row {row + 1}; leave such cells empty to use it as numbers"
    ]


def _counts_rows(series: pd.Series) -> bool:
    """Whether a column holds n consecutive whole numbers once each, like an index."""
    if len(series) <= FEW or series.isna().any() or series.dtype.kind not in "iu":
        return False
    return bool(series.is_unique and int(series.max()) - int(series.min()) == len(series) - 1)
