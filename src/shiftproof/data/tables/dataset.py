"""The user's own table, CSV or Parquet: one row a sample, a column of labels, one of domains.

Nothing is guessed in silence: a row that does not fit its header is an error, and every row or
column left out is named in the dataset's notes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from shiftproof.core.errors import DataError, InvalidValue, UnknownName
from shiftproof.data.base import Domain, DomainDataset
from shiftproof.data.similar_names import almost_alike
from shiftproof.data.tables.cell_types import (
    NUMBER,
    counted,
    kind_of,
    listed,
    named,
    shortened,
    texts,
)
from shiftproof.data.tables.preprocessing import Column, Columns
from shiftproof.data.tables.read_file import read_frame

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

EVAL_EVERY = 100
# More different labels than this are no classes.
MOST_CLASSES = 1000
# A text column of more values than this, or of mostly different ones, is no category.
MOST_CATEGORIES = 256
# Up to this many different values are few, however few the rows.
_FEW = 20
_LONGEST_NAME = 200


def load_table(
    path: Path,
    label: str | None = None,
    domain: str | None = None,
    *,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    missing_indicators: bool = False,
) -> DomainDataset:
    """Load a CSV or Parquet file (see `read_frame` and `table_dataset`)."""
    return table_dataset(
        read_frame(path),
        path.name,
        label,
        domain,
        drop=drop,
        categorical=categorical,
        missing_indicators=missing_indicators,
    )


def table_dataset(
    frame: pd.DataFrame,
    name: str,
    label: str | None = None,
    domain: str | None = None,
    *,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    missing_indicators: bool = False,
) -> DomainDataset:
    """Return a table as a dataset: each row a sample, in the order of the table.

    ``label`` and ``domain`` are the columns that hold them, by default those of these names; the
    columns in ``drop`` are not used, and all others are features.  Numbers are numbers, text and
    pandas' categoricals are categories; dates, row numbers, and texts that are mostly different
    (identifiers, remarks) are left out with a note, as are rows without a label or domain.
    ``categorical`` names columns whose numbers are codes.
    ``missing_indicators`` is explained at `Columns`.
    """
    frame = named(frame, name)
    label = column_of(frame, name, "label", label)
    domain = column_of(frame, name, "domain", domain)
    drop = [column_of(frame, name, "drop", column) for column in drop]
    if label == domain:
        raise InvalidValue(f"--label and --domain name the same column, {shortened(label)}")
    for column in (label, domain):
        if column in drop:
            raise InvalidValue(f"--drop names {shortened(column)}, which is the label or domain")
    features = frame.drop(columns=[label, domain, *drop])
    for column in [column_of(features, name, "categorical", column) for column in categorical]:
        features[column] = features[column].astype("category")
    return frame_dataset(
        features, frame[label], frame[domain], name, missing_indicators=missing_indicators
    )


def frame_dataset(
    features: pd.DataFrame,
    label: pd.Series,
    domain: pd.Series,
    name: str,
    *,
    missing_indicators: bool = False,
) -> DomainDataset:
    """Return features, labels and domains, row by row, as a dataset."""
    features = named(features, name)
    groups = grouped(label, domain, name)
    columns, notes = _chosen(features, name)
    preparation = Columns(columns, missing_indicators)
    x = preparation.encode(features, name)
    notes += _copies(columns, x.numpy(), groups)
    return groups.table(name, x, preparation, notes)


class Groups(NamedTuple):
    """Which rows belong to which domain, and what they are labelled.

    ``label`` and ``domain`` [rows] are positions in ``classes`` and ``names``, or both −1 where the
    row is left out.
    """

    classes: tuple[str, ...]
    names: tuple[str, ...]
    label: np.ndarray
    domain: np.ndarray
    notes: tuple[str, ...]

    def domains_of(self, x: Tensor) -> tuple[Domain, ...]:
        """Deal the inputs [rows, …] to the domains; within one they keep their order."""
        domains = []
        for code, name in enumerate(self.names):
            rows = torch.from_numpy(np.flatnonzero(self.domain == code))
            domains.append(Domain(name, x[rows], torch.from_numpy(self.label)[rows]))
        return tuple(domains)

    def table(
        self, name: str, x: Tensor, preparation: Columns, notes: Sequence[str] = ()
    ) -> DomainDataset:
        """Return the dataset of a table with the cells ``x`` [rows, columns]."""
        return DomainDataset(
            name,
            self.domains_of(x),
            self.classes,
            regime="table",
            backbone="mlp",
            eval_every=EVAL_EVERY,
            preparation=preparation,
            notes=(*self.notes, *notes),
        )


def grouped(label: pd.Series, domain: pd.Series, table: str) -> Groups:
    """Sort classes and domains, by size if all are numbers, and find the rows of each.

    Rows without a label or domain are left out, with a note.
    """
    labels, classes = _names(label, "label", table)
    codes, names = _names(domain, "domain", table)
    notes = []
    if (unlabelled := (labels < 0) & (codes >= 0)).any():
        there, lost = (
            np.bincount(codes[rows], minlength=len(names)) for rows in (codes >= 0, unlabelled)
        )
        of = [
            f"{shortened(name)} {'all ' if lost[i] == there[i] else ''}{lost[i]}"
            for i, name in enumerate(names)
            if lost[i]
        ]
        notes.append(f"left out {counted(int(lost.sum()), 'row')} without a label: {', '.join(of)}")
    if homeless := int((codes < 0).sum()):
        notes.append(f"left out {counted(homeless, 'row')} without a domain")
    kept = (labels >= 0) & (codes >= 0)
    labels, classes = _renumbered(np.where(kept, labels, -1), classes)
    codes, names = _renumbered(np.where(kept, codes, -1), names)
    for what, found in (("class", classes), ("domain", names)):
        if not found:
            raise DataError(f"{table} has no row with both a label and a domain")
        if len(found) == 1:
            raise DataError(
                f"{table} has one {what} only, {shortened(found[0])}, in"
                f" {counted(int(kept.sum()), 'row')}; at least two are needed"
            )
    if _one_to_one(labels[kept], codes[kept]):
        notes.append(
            "each domain has one class of its own, so that the domain determines the label exactly;"
            " are these the right columns?"
        )
    notes += almost_alike(names, "domains") + almost_alike(classes, "classes")
    if len(classes) > _FEW and all(map(_is_number, classes)):
        notes.append(
            f"the label has {len(classes)} different numbers, and each is a class of its own; is"
            " this the column?"
        )
    return Groups(tuple(classes), tuple(names), labels, codes, tuple(notes))


def _names(series: pd.Series, what: str, table: str) -> tuple[np.ndarray, list[str]]:
    """Return which of the sorted names each row has, −1 for none."""
    column = f"the {what} column {shortened(str(series.name))} of {table}"
    if kind_of(series) == "other":
        raise DataError(f"{column} holds neither numbers nor text")
    codes, names = texts(series)
    if not names:
        raise DataError(f"{column} is empty")
    fractions = all(_is_number(name) for name in names) and any("." in name for name in names)
    many = len(names) > _FEW and (fractions or 2 * len(names) > (codes >= 0).sum())
    if many or (what == "label" and len(names) > MOST_CLASSES):
        raise DataError(
            f"{column} has {len(names)} different values in {(codes >= 0).sum()} rows; that is no"
            f" {'class' if what == 'label' else 'domain'}: choose another column, or group them"
        )
    longest = max(names, key=len)
    if len(longest) > _LONGEST_NAME:
        raise DataError(
            f"{column} holds a text of {len(longest)} letters, {shortened(longest)}; a {what} has"
            f" at most {_LONGEST_NAME}"
        )
    return _renumbered(codes, names)


def _renumbered(codes: np.ndarray, names: list[str]) -> tuple[np.ndarray, list[str]]:
    """Leave out names that no row has, and sort the others."""
    present = [names[code] for code in np.unique(codes[codes >= 0])]
    if all(map(_is_number, present)):
        present.sort(key=lambda name: (float(name), name))
    else:
        present.sort()
    position = {name: code for code, name in enumerate(present)}
    return np.array([*(position.get(name, -1) for name in names), -1])[codes], present


def _is_number(name: str) -> bool:
    return re.fullmatch(NUMBER, name) is not None


def column_of(frame: pd.DataFrame, table: str, option: str, given: str | None) -> str:
    """Return the name of a column: the one given, or the one called as the option is."""
    columns = list(frame.columns)
    name = option if given is None else " ".join(given.split())
    if name in columns:
        return name
    if given is None:
        raise DataError(
            f"{table} has no column named {option!r}; name the one it is with --{option}, among"
            f" {listed(columns)}"
        )
    raise UnknownName(f"column of {table}", given, columns)


def _chosen(features: pd.DataFrame, table: str) -> tuple[tuple[Column, ...], list[str]]:
    """Choose the columns that can be features, and say which are not."""
    chosen: list[Column] = []
    left_out: dict[str, list[str]] = {}
    notes = []
    for name in features.columns:
        series = features[name]
        kind = kind_of(series)
        if kind == "category":
            codes, found = texts(series)
            if len(found) > MOST_CATEGORIES or (
                len(found) > _FEW and 2 * len(found) > (codes >= 0).sum()
            ):
                left_out.setdefault("text of too many different values", []).append(name)
                continue
            if all(map(_is_number, found)) and series.dtype != "category":
                notes.append(
                    f"column {shortened(name)} holds numbers as text; they are taken as categories"
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


def _stray_words(series: pd.Series, codes: np.ndarray, found: list[str], name: str) -> list[str]:
    """Warn of a column that would be numbers but for a few values."""
    words = [code for code, text in enumerate(found) if not _is_number(text)]
    astray = np.isin(codes, words)
    there = int((codes >= 0).sum())
    if not words or 2 * astray.sum() > there or series.dtype == "category":
        return []
    row = int(np.flatnonzero(astray)[0])
    return [
        f"column {shortened(name)} is taken as {len(found)} categories because of"
        f" {counted(int(astray.sum()), 'value')} of {there} that is no number, the first"
        f" {shortened(found[codes[row]])} in row {row + 1}; leave such cells empty to use it as"
        " numbers"
    ]


def _counts_rows(series: pd.Series) -> bool:
    """Return whether a column holds each of n whole numbers in a row once, as an index does."""
    if len(series) <= _FEW or series.isna().any() or series.dtype.kind not in "iu":
        return False
    return bool(series.is_unique and int(series.max()) - int(series.min()) == len(series) - 1)


def _copies(columns: tuple[Column, ...], x: np.ndarray, groups: Groups) -> list[str]:
    """Warn of columns that say the label or the domain in other words."""
    kept = groups.domain >= 0
    notes = []
    for position, column in enumerate(columns):
        for what, codes in (("label", groups.label), ("domain", groups.domain)):
            if _one_to_one(x[kept, position], codes[kept]):
                notes.append(
                    f"column {shortened(column.name)} determines the {what} exactly; is it a copy?"
                    f" drop it with --drop {shortened(column.name)}"
                )
    return notes


def _one_to_one(one: np.ndarray, other: np.ndarray) -> bool:
    firsts, seconds = (np.unique(side, return_inverse=True) for side in (one, other))
    size = len(firsts[0])
    if size != len(seconds[0]):
        return False
    return len(np.unique(firsts[1] * size + seconds[1])) == size
