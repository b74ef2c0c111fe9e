"""The labels, domains and weights of a table's rows, and the classes and domains that occur.

A label is a class or a number (`tables.label_kind`).

Nothing is left out silently: the notes report every row left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shiftproof.core.errors import DataError
from shiftproof.core.text import counted, quoted, similar_names
from shiftproof.core.types import REGRESSION
from shiftproof.data.base import DomainDataset
from shiftproof.data.domain import Domain
from shiftproof.data.tables.cell_types import NUMBER, Cells
from shiftproof.data.tables.label_kind import AUTO, FEW, MOST_CLASSES, label_kind
from shiftproof.data.tables.preprocessing import Columns

EVAL_EVERY = 100
_LONGEST_NAME = 200


class Groups(NamedTuple):
    """The domain and the label of each row.

    `label` and `domain` [rows] are indices into `classes` and `names`; `domain` is −1 for rows that
    are left out.  For regression, `targets` names the number to predict, `label` holds it as
    float64, and `classes` is empty.  `weight` [rows] holds row weights; None means equal weights.
    """

    classes: tuple[str, ...]
    names: tuple[str, ...]
    label: np.ndarray
    domain: np.ndarray
    notes: tuple[str, ...]
    targets: tuple[str, ...] = ()
    weight: np.ndarray | None = None

    def with_weights(self, weight: np.ndarray | None, where: str) -> Groups:
        """Return the groups with weights [rows], if given; `where` names them in errors."""
        if weight is None:
            return self
        return self._replace(weight=checked_weights(weight, self.domain >= 0, where))

    def domains_of(self, x: np.ndarray) -> tuple[Domain, ...]:
        """Split the inputs [rows, …] into domains; rows keep their order within a domain."""
        domains = []
        for code, name in enumerate(self.names):
            rows = np.flatnonzero(self.domain == code)
            weight = None if self.weight is None else self.weight[rows]
            domains.append(Domain(name, x[rows], self.label[rows], weight))
        return tuple(domains)

    def table(
        self, name: str, x: np.ndarray, preparation: Columns, notes: Sequence[str] = ()
    ) -> DomainDataset:
        """Return the dataset of a table with cells `x` [rows, columns]."""
        return DomainDataset(
            name,
            self.domains_of(x),
            self.classes,
            regime="table",
            backbone="mlp",
            eval_every=EVAL_EVERY,
            preparation=preparation,
            notes=(*self.notes, *notes),
            targets=self.targets,
        )


def grouped(
    label: Cells,
    domain: Cells,
    table: str,
    task: str = AUTO,
    *,
    images: bool = False,
    fewest_domains: int = 2,
) -> Groups:
    """Read the labels and the domains, and find the rows of each domain.

    Classes and domains are sorted, as numbers if all are numbers.  Rows without a label or domain
    are left out, with a note.  `task` says whether labels are classes or numbers; `auto` infers it
    from the column (`label_kind`), and prefers classes for labels of `images`.
    """
    kind, why = label_kind(label, table, task, images=images)
    amounts = kind == REGRESSION
    codes, names = _names(domain, "domain", table)
    classes: list[str] = []
    if amounts:
        labels = label.numbers(f"the label column {quoted(label.name)} of {table}")
        missing = np.isnan(labels)
    else:
        labels, classes = _names(label, "label", table)
        missing = labels < 0
    notes = [*why, *_left_out(missing, codes, names)]
    complete = ~missing & (codes >= 0)
    codes, names = _renumbered(np.where(complete, codes, -1), names)
    if not amounts:
        labels, classes = _renumbered(np.where(complete, labels, -1), classes)
        _require("class", classes, 2, complete, table)
    _require("domain", names, fewest_domains, complete, table)
    if amounts and (labels[complete] == (first := labels[complete][0])).all():
        raise DataError(
            f"the label column {quoted(label.name)} of {table} has one value only, {first:g}, in"
            f" {counted(int(complete.sum()), 'row')}; at least two are needed"
        )
    if not amounts and one_to_one(labels[complete], codes[complete]):
        notes.append(
            "each domain has one class of its own, so the domain determines the label exactly;"
            " check the label and domain columns"
        )
    notes += similar_names(names, "domains") + similar_names(classes, "classes")
    if len(classes) > FEW and all(map(is_number, classes)):
        notes.append(
            f"the label has {len(classes)} distinct numbers, each taken as a class; check the label"
            " column"
        )
    targets = (" ".join(label.name.split()),) if amounts else ()
    return Groups(tuple(classes), tuple(names), labels, codes, tuple(notes), targets)


def _left_out(unlabelled: np.ndarray, codes: np.ndarray, names: list[str]) -> list[str]:
    """Return notes on rows without a label or a domain."""
    notes = []
    if (unlabelled := unlabelled & (codes >= 0)).any():
        rows = np.bincount(codes[codes >= 0], minlength=len(names))
        lost = np.bincount(codes[unlabelled], minlength=len(names))
        of = [
            f"{quoted(name)} {'all ' if missing == total else ''}{missing}"
            for name, missing, total in zip(names, lost, rows, strict=True)
            if missing
        ]
        notes.append(f"left out {counted(int(lost.sum()), 'row')} without a label: {', '.join(of)}")
    if without_domain := int((codes < 0).sum()):
        notes.append(f"left out {counted(without_domain, 'row')} without a domain")
    return notes


def _require(what: str, names: list[str], fewest: int, complete: np.ndarray, table: str) -> None:
    if not names:
        raise DataError(f"{table} has no row with both a label and a domain")
    if len(names) < fewest:
        raise DataError(
            f"{table} has one {what} only, {quoted(names[0])}, in"
            f" {counted(int(complete.sum()), 'row')}; at least two are needed"
        )


def _names(cells: Cells, what: str, table: str) -> tuple[np.ndarray, list[str]]:
    """Return the index of each row's name (−1 if missing), and the sorted names."""
    column = f"the {what} column {quoted(cells.name)} of {table}"
    if cells.holds == "other":
        raise DataError(f"{column} holds neither numbers nor text")
    codes, names = cells.texts
    if not names:
        raise DataError(f"{column} is empty")
    fractions = all(is_number(name) for name in names) and any("." in name for name in names)
    many = len(names) > FEW and (fractions or 2 * len(names) > (codes >= 0).sum())
    if many or (what == "label" and len(names) > MOST_CLASSES):
        raise DataError(
            f"{column} has {len(names)} distinct values in {(codes >= 0).sum()} rows, too many for"
            f" a {'class label' if what == 'label' else 'domain'}: choose another column, or group"
            " the values"
        )
    longest = max(names, key=len)
    if len(longest) > _LONGEST_NAME:
        raise DataError(
            f"{column} holds a text of {len(longest)} characters, {quoted(longest)}; a {what} may"
            f" have at most {_LONGEST_NAME}"
        )
    return _renumbered(codes, names)


def _renumbered(codes: np.ndarray, names: list[str]) -> tuple[np.ndarray, list[str]]:
    """Remove names that no row has, sort the others, and renumber the codes."""
    present = [names[code] for code in np.unique(codes[codes >= 0])]
    numeric = all(map(is_number, present))
    present.sort(key=lambda name: (float(name), name) if numeric else (0.0, name))
    position = {name: code for code, name in enumerate(present)}
    return np.array([*(position.get(name, -1) for name in names), -1])[codes], present


def is_number(name: str) -> bool:
    """Whether a text spells a finite number."""
    return re.fullmatch(NUMBER, name) is not None


def one_to_one(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two columns determine each other."""
    few = 1000
    if len(one) > few and not one_to_one(one[:few], other[:few]):  # saves sorting long columns
        return False
    firsts, seconds = (np.unique(side, return_inverse=True) for side in (one, other))
    size = len(firsts[0])
    if size != len(seconds[0]):
        return False
    return len(np.unique(firsts[1] * size + seconds[1])) == size


def checked_weights(given: np.ndarray, used: np.ndarray, where: str) -> np.ndarray:
    """Return the row weights [n], or raise if a weight in the mask `used` [n] is invalid.

    A weight is a finite number of at least 0, and at least one must be positive.  `where` names the
    weights in errors, which count rows from 1.

    >>> checked_weights(np.array([1.0, 0.0, 2.5]), np.array([True, True, True]), "`weight`")
    array([1. , 0. , 2.5])
    """
    rule = "weights must be finite and at least 0"
    for wrong, what in (
        (np.isnan(given), "is missing"),
        (np.isinf(given), "is infinite"),
        (given < 0, "is {value:g}"),
    ):
        rows = np.flatnonzero(wrong & used)
        if len(rows):
            fault = what.format(value=given[rows[0]])
            raise DataError(f"{where} {fault} in row {rows[0] + 1}; {rule}")
    if not given[used].any():
        raise DataError(f"{where} is zero in every row; at least one weight must be positive")
    return given
