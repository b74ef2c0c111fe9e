"""Decide whether a label column holds classes or numbers to predict.

Text is always classes, and so are two distinct numbers.  More numbers are classes if they are few
and whole, and amounts if they are many or mostly distinct.  If both are plausible (24 ages, 65
class codes), nothing is guessed: an error asks the user to choose.
"""

from __future__ import annotations

import typing
from collections.abc import Sequence

import numpy as np

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.core.text import counted, listed, quoted
from shiftproof.core.types import CLASSIFICATION, REGRESSION, Kind
from shiftproof.data.tables.cell_types import Cells
from shiftproof.data.tables.column_names import column_names

# The value of `task` that leaves the decision to the label column.
AUTO = "auto"
# Up to this many distinct values count as few, even in a small table.
FEW = 20
# More distinct labels than this are not classes.
MOST_CLASSES = 1000
# More distinct whole numbers than this are amounts, unless they are consecutive from 0 or 1.
MANY = 100


def is_one_hot(labels: np.ndarray) -> bool:
    """Whether labels are one-hot rows: zeros with a single one.

    >>> is_one_hot(np.eye(3)), is_one_hot(np.ones((3, 2))), is_one_hot(np.ones(3))
    (True, False, False)
    """
    if labels.ndim != 2 or labels.shape[1] < 2 or labels.dtype.kind not in "biuf":
        return False
    return bool(np.isin(labels, (0, 1)).all() and (labels.sum(axis=1) == 1).all())


def one_label(columns: Sequence[str], table: str, given: str | None) -> str:
    """Return the label column that `given` names; raise if it names several."""
    names = column_names(columns, table, "label", given)
    if len(names) > 1:
        raise InvalidValue(
            f"`label` must name one column, not {listed(names)}: call train once for each label"
        )
    return names[0]


def label_kind(
    label: Cells, table: str, task: str = AUTO, *, images: bool = False
) -> tuple[Kind, tuple[str, ...]]:
    """Return the kind of task for a label column, and notes that give the reason.

    `task` overrides the decision.  Only an inferred regression has a note.  Numeric labels of
    `images` are mostly class codes, so they are amounts only if they cannot be classes.
    """
    if task != AUTO:
        return typing.cast(Kind, task), ()
    if label.holds != "number" or label.is_logical:
        return CLASSIFICATION, ()
    column = f"the label column {quoted(label.name)} of {table}"
    numbers = label.numbers(column)
    numbers = numbers[~np.isnan(numbers)]
    distinct = np.unique(numbers)
    rows, k = len(numbers), len(distinct)
    whole = bool((distinct == np.floor(distinct)).all())
    if k <= 2 or (whole and k <= FEW):
        return CLASSIFICATION, ()
    codes = whole and distinct[0] in (0, 1) and distinct[-1] - distinct[0] == k - 1
    amounts = 2 * k > rows or k > (MOST_CLASSES if whole else FEW)
    if images and not amounts:
        return CLASSIFICATION, ()
    sort = "whole numbers" if whole else "numbers"
    if amounts or (k > MANY and not codes):
        return REGRESSION, (
            f"regression: the label {quoted(label.name)} has {k:,} distinct {sort} in"
            f" {counted(rows, 'row')}; if they are classes, set `task='classification'`",
        )
    sort += "" if whole else ", some with fractions,"
    raise DataError(
        f"{column} has {k} distinct {sort} in {counted(rows, 'row')}, which may be classes or"
        " amounts: set `task='classification'` or `task='regression'`"
    )
