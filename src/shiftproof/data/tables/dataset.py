"""Build a dataset from a table: one sample per row, with a label and a domain column.

Nothing is left out silently: the dataset's notes report every row or column left out.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.core.text import counted, listed, quoted
from shiftproof.data.base import DomainDataset
from shiftproof.data.settings import DataSettings
from shiftproof.data.tables.cell_types import Cells, cells_of
from shiftproof.data.tables.column_names import column_name, column_names
from shiftproof.data.tables.domain_column import domain_series
from shiftproof.data.tables.groups import Groups, grouped, is_number, one_to_one
from shiftproof.data.tables.label_kind import AUTO, FEW, one_label
from shiftproof.data.tables.preprocessing import Column, Columns
from shiftproof.data.tables.read import as_table
from shiftproof.data.tables.vectors import vectors_in


def table_dataset(
    frame: Any, name: str, settings: DataSettings, missing_indicators: bool = False
) -> DomainDataset:
    """Return a table as a dataset: one sample per row, in table order.

    `frame` is a pyarrow table or a data frame of any library.  The settings `label` and `domain`
    name columns, by default the columns `label` and `domain`.  The columns in `drop` are not used;
    all others are features.  Text and categoricals are categories; dates, row numbers, and text
    with mostly distinct values (identifiers, remarks) are left out with a note, as are rows without
    a label or domain.
    `categorical` names columns whose numbers are category codes.  If the table has vectors
    (`tables.vectors`), the regime is `features`, and `drop` may name a whole vector.
    `weights_column` holds the training weights of the rows; it is not a feature.
    `by` and `pool_below` are explained in `domain_column`, `missing_indicators` in `Columns`.
    `task` is `classification` or `regression`; `auto` infers it from the label column
    (`label_kind`).
    """
    table = as_table(frame, name)
    columns = table.column_names
    label = one_label(columns, name, settings.label)
    domains = column_names(columns, name, "domain", settings.domain)
    vectors = vectors_in(columns)
    drop = [
        column
        for given in settings.drop
        for dropped in column_names([*vectors, *columns], name, "drop", given)
        for column in vectors.get(dropped, [dropped])
    ]
    if label in domains:
        raise InvalidValue(f"`label` and `domain` name the same column, {quoted(label)}")
    for column in (label, *domains):
        if column in drop:
            raise InvalidValue(f"`drop` names {quoted(column)}, which is the label or domain")
    weight, notes = None, list[str]()
    if settings.weights_column is not None:
        weighed_by = column_name(columns, name, "weights_column", settings.weights_column)
        if weighed_by in (label, *domains):
            raise InvalidValue(
                f"`weights_column` names {quoted(weighed_by)}, which is the label or domain"
            )
        where = f"column {quoted(weighed_by)} of {name}"
        weight = cells_of(table, weighed_by).numbers(where)
        drop = [*drop, weighed_by]
        notes.append(
            f"column {quoted(weighed_by)} weights the rows in training; the diagnosis and all"
            " scores weight every row equally"
        )
    features = table.drop_columns(list({label, *domains, *drop}))
    for given in settings.categorical:
        for column in column_names(features.column_names, name, "categorical", given):
            codes = features.column(column).dictionary_encode()
            features = features.set_column(features.column_names.index(column), column, codes)
    domain_cells, pooling = domain_series(table, name, domains, settings.by, settings.pool_below)
    notes += pooling
    dataset = rows_dataset(
        features,
        cells_of(table, label),
        domain_cells,
        name,
        weight=weight,
        missing_indicators=missing_indicators,
        task=settings.task,
    )
    return replace(dataset, notes=(*notes, *dataset.notes))


def rows_dataset(
    features: pa.Table,
    label: Cells,
    domain: Cells,
    name: str,
    *,
    weight: np.ndarray | None = None,
    missing_indicators: bool = False,
    task: str = AUTO,
    fewest_domains: int = 2,
) -> DomainDataset:
    """Build a dataset from features, labels, domains and weights, aligned by row."""
    groups = grouped(label, domain, name, task, fewest_domains=fewest_domains)
    groups = groups.with_weights(weight, f"a weight of {name}")
    columns, notes = feature_columns(features, name)
    preparation = Columns(columns, missing_indicators)
    x = preparation.encode(features, name)
    parts = vectors_in([column.name for column in columns]).values()
    vectors = {name for names in parts if len(names) > 1 for name in names}
    notes += copies_of_label_or_domain(columns, x, groups, vectors)
    dataset = groups.table(name, x, preparation, notes)
    return replace(dataset, regime="features") if vectors else dataset


# A text column with more distinct values, or with mostly distinct ones, is not a category.
MOST_CATEGORIES = 256


def feature_columns(features: pa.Table, table: str) -> tuple[tuple[Column, ...], list[str]]:
    """Return the columns that can be features, and notes on the others."""
    chosen: list[Column] = []
    left_out: dict[str, list[str]] = {}
    notes = []
    why = {"date": "dates; turn them into numbers to use them", "empty": "no values"}
    for name in features.column_names:
        cells = cells_of(features, name)
        if cells.holds == "category":
            codes, values = cells.texts
            if len(values) > MOST_CATEGORIES or (
                len(values) > FEW and 2 * len(values) > (codes >= 0).sum()
            ):
                left_out.setdefault("text with too many distinct values", []).append(name)
                continue
            if not pa.types.is_dictionary(cells.array.type):
                notes += _numbers_as_text(codes, values, name)
            chosen.append(Column(name, "category", tuple(sorted(values))))
        elif cells.holds != "number":
            left_out.setdefault(why.get(cells.holds, "neither numbers nor text"), []).append(name)
        elif _counts_rows(cells):
            left_out.setdefault("row numbers", []).append(name)
        else:
            chosen.append(Column(name, "number"))
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
    complete = groups.domain >= 0
    rows: Any = slice(None) if complete.all() else complete  # a slice copies nothing
    same_label = _proportional if groups.targets else one_to_one
    notes = []
    for position, column in enumerate(columns):
        if column.name in unasked:
            continue
        for what, codes, same in (
            ("label", groups.label, same_label),
            ("domain", groups.domain, one_to_one),
        ):
            if same(x[rows, position], codes[rows]):
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


def _numbers_as_text(codes: np.ndarray, values: list[str], name: str) -> list[str]:
    """Return a note on a text column whose values are numbers, all or all but a few."""
    if all(map(is_number, values)):
        return [f"column {quoted(name)} holds numbers as text; they are taken as categories"]
    words = np.isin(codes, [code for code, value in enumerate(values) if not is_number(value)])
    there = int((codes >= 0).sum())
    if 2 * words.sum() > there:
        return []
    return [
        f"column {quoted(name)} is taken as {len(values)} categories because"
        f" {counted(int(words.sum()), 'value')} of {there} cannot be read as a number, the first"
        f" in row {int(np.flatnonzero(words)[0]) + 1}; leave such cells empty to use it as numbers"
    ]


def _counts_rows(cells: Cells) -> bool:
    """Whether a column holds n consecutive whole numbers once each, like an index."""
    array = cells.array
    if len(array) <= FEW or array.null_count or not pa.types.is_integer(array.type):
        return False
    numbers = np.asarray(array)
    return bool(np.ptp(numbers) == len(numbers) - 1 and len(np.unique(numbers)) == len(numbers))
