"""A table as a dataset: one row a sample, with a label and a domain column.

Nothing is guessed silently: every row or column left out is named in the dataset's notes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shiftproof.core.errors import DataError, InvalidValue, UnknownName
from shiftproof.core.text import listed, quoted
from shiftproof.data.base import DomainDataset
from shiftproof.data.tables.cell_types import named
from shiftproof.data.tables.feature_columns import copies_of_label_or_domain, feature_columns
from shiftproof.data.tables.groups import grouped
from shiftproof.data.tables.label_kind import AUTO
from shiftproof.data.tables.preprocessing import Columns

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
    missing_indicators: bool = False,
    task: str = AUTO,
) -> DomainDataset:
    """Return a table as a dataset: each row a sample, in the order of the table.

    `label` and `domain` are the columns that hold them, by default those of these names; the
    columns in `drop` are not used, and all others are features.  Numbers are numbers; text and
    pandas' categoricals are categories; dates, row numbers, and texts that are mostly distinct
    (identifiers, remarks) are left out with a note, as are rows without a label or domain.
    `categorical` names columns whose numbers are codes.
    `missing_indicators` is explained at `Columns`.  `task` is `classification` or `regression`;
    `auto` decides by the label column (`label_kind`).
    """
    frame = named(frame, name)
    label = column_of(frame, name, "label", label)
    domain = column_of(frame, name, "domain", domain)
    drop = [column_of(frame, name, "drop", column) for column in drop]
    if label == domain:
        raise InvalidValue(f"`label` and `domain` name the same column, {quoted(label)}")
    for column in (label, domain):
        if column in drop:
            raise InvalidValue(f"`drop` names {quoted(column)}, which is the label or domain")
    features = frame.drop(columns=[label, domain, *drop])
    for column in [column_of(features, name, "categorical", column) for column in categorical]:
        features[column] = features[column].astype("category")
    return frame_dataset(
        features,
        frame[label],
        frame[domain],
        name,
        missing_indicators=missing_indicators,
        task=task,
    )


def frame_dataset(
    features: pd.DataFrame,
    label: pd.Series,
    domain: pd.Series,
    name: str,
    *,
    missing_indicators: bool = False,
    task: str = AUTO,
) -> DomainDataset:
    """Return features, labels and domains, row by row, as a dataset."""
    features = named(features, name)
    groups = grouped(label, domain, name, task)
    columns, notes = feature_columns(features, name)
    preparation = Columns(columns, missing_indicators)
    x = preparation.encode(features, name)
    notes += copies_of_label_or_domain(columns, x.numpy(), groups)
    return groups.table(name, x, preparation, notes)


def column_of(frame: pd.DataFrame, table: str, parameter: str, given: str | None) -> str:
    """Return the name of a column: the one given, or by default the one named as the parameter."""
    columns = list(frame.columns)
    name = parameter if given is None else " ".join(given.split())
    if name in columns:
        return name
    if given is None:
        raise DataError(
            f"{table} has no column named {parameter!r}; set `{parameter}` to one of"
            f" {listed(columns)}"
        )
    raise UnknownName(f"column of {table}", given, columns)
