"""Build a dataset from a table: one sample per row, with a label and a domain column.

Nothing is left out silently: the dataset's notes report every row or column left out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.core.text import counted, listed, quoted
from shiftproof.data.base import DomainDataset
from shiftproof.data.tables.cell_types import kind_of, named, texts, values
from shiftproof.data.tables.column_names import column_name, column_names
from shiftproof.data.tables.domain_column import domain_series, is_plain, require_domains
from shiftproof.data.tables.groups import Groups, grouped, is_number, one_to_one
from shiftproof.data.tables.label_kind import AUTO, FEW, one_label
from shiftproof.data.tables.preprocessing import Column, Columns
from shiftproof.data.tables.vectors import of_vectors, vectors_in

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]


def table_dataset(
    frame: pd.DataFrame,
    name: str,
    label: str | None = None,
    domain: str | None = None,
    *,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    by: str | None = None,
    pool_below: int = 0,
    weights_column: str | None = None,
    missing_indicators: bool = False,
    task: str = AUTO,
) -> DomainDataset:
    """Return a table as a dataset: one sample per row, in table order.

    `label` and `domain` name columns, by default the columns `label` and `domain`.  The columns in
    `drop` are not used; all others are features.  Text and pandas categoricals are categories;
    dates, row numbers, and text with mostly distinct values (identifiers, remarks) are left out
    with a note, as are rows without a label or domain.
    `categorical` names columns whose numbers are category codes.  If the table has vectors
    (`tables.vectors`), the regime is `features`, and `drop` may name a whole vector.
    `weights_column` holds the training weights of the rows; it is not a feature.
    `by` and `pool_below` are explained in `domain_column`, `missing_indicators` in `Columns`.
    `task` is `classification` or `regression`; `auto` infers it from the label column
    (`label_kind`).
    """
    frame = named(frame, name)
    label = one_label(list(frame.columns), name, label)
    domains = column_names(list(frame.columns), name, "domain", domain)
    vectors = vectors_in(frame.columns)
    known = [*vectors, *frame.columns]
    drop = [
        own
        for given in drop
        for column in column_names(known, name, "drop", given)
        for own in vectors.get(column, [column])
    ]
    if label in domains:
        raise InvalidValue(f"`label` and `domain` name the same column, {quoted(label)}")
    for column in (label, *domains):
        if column in drop:
            raise InvalidValue(f"`drop` names {quoted(column)}, which is the label or domain")
    weight, notes = None, list[str]()
    if weights_column is not None:
        weighed_by = column_of(frame, name, "weights_column", weights_column)
        if weighed_by in (label, *domains):
            raise InvalidValue(
                f"`weights_column` names {quoted(weighed_by)}, which is the label or domain"
            )
        weight = values(frame[weighed_by], f"column {quoted(weighed_by)} of {name}")
        drop = [*drop, weighed_by]
        notes.append(
            f"column {quoted(weighed_by)} weights the rows in training; the diagnosis and all"
            " scores weight every row equally"
        )
    features = frame.drop(columns=[label, *domains, *drop])
    for given in categorical:
        for column in column_names(list(features.columns), name, "categorical", given):
            features[column] = features[column].astype("category")
    own = frame[domains[-1]]
    if by is None and len(domains) == 1:
        require_domains(own, name)
    if not is_plain(domains, by, pool_below):
        own, made = domain_series(frame, name, domains, by, pool_below)
        notes += made
    dataset = frame_dataset(
        features,
        frame[label],
        own,
        name,
        weight=weight,
        missing_indicators=missing_indicators,
        task=task,
    )
    return replace(dataset, notes=(*notes, *dataset.notes))


def frame_dataset(
    features: pd.DataFrame,
    label: pd.Series,
    domain: pd.Series,
    name: str,
    *,
    weight: np.ndarray | None = None,
    missing_indicators: bool = False,
    task: str = AUTO,
) -> DomainDataset:
    """Build a dataset from features, labels, domains and weights, aligned by row."""
    features = named(features, name)
    groups = grouped(label, domain, name, task).with_weights(weight, f"a weight of {name}")
    columns, notes = feature_columns(features, name)
    preparation = Columns(columns, missing_indicators)
    x = preparation.encode(features, name)
    vectors = of_vectors([column.name for column in columns])
    notes += copies_of_label_or_domain(columns, x, groups, vectors)
    dataset = groups.table(name, x, preparation, notes)
    return replace(dataset, regime="features") if vectors else dataset


def column_of(frame: pd.DataFrame, table: str, parameter: str, given: str | None) -> str:
    """Return the name of the column `given`, by default the one named like `parameter`."""
    return column_name(list(frame.columns), table, parameter, given)


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
    same_label = _proportional if groups.targets else one_to_one
    notes = []
    for position, column in enumerate(columns):
        if column.name in unasked:
            continue
        for what, codes, same in (
            ("label", groups.label, same_label),
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
