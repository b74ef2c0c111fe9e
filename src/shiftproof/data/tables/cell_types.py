"""The cells of a table's columns: whether they are numbers or text, and which are missing.

A table is a pyarrow table, whatever it was read from (`tables.read`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shiftproof.core.errors import DataError
from shiftproof.core.text import counted, printable, quoted

# Texts that stand for a missing value, in upper or lower case.
MISSING = frozenset(["", "na", "n/a", "#n/a", "#na", "<na>", "nan", "-nan", "null", "?"])
# Texts that stand for a missing value among numbers; among other texts they may be a category.
MISSING_AMONG_NUMBERS = frozenset(["none", "-", ".", "missing"])
NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
INFINITE = r"[+-]?(?i:inf|infinity)"
# 007 is an identifier, not the number seven.
ZERO_PADDED = r"[+-]?0[0-9].*"
# NUMBER without zero-padded numbers.
NOT_PADDED = r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
FLAGS = {"false": 0.0, "true": 1.0}

_NUMBER = re.compile(f"{NUMBER}|{INFINITE}")
_ZERO_PADDED = re.compile(ZERO_PADDED, re.DOTALL)
_DATE = re.compile(
    r"[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}([T ].*)?|[0-9]{1,2}[-/.][0-9]{1,2}[-/.][0-9]{4}( .*)?"
)

Content = Literal["number", "category", "date", "empty", "other"]


def text_of(value: object) -> str | None:
    """Return a cell as text, or None if it stands for a missing value.

    Runs of white space become one space, equal numbers get the same text, and unprintable
    characters are escaped, because the text may be displayed.

    >>> [text_of(value) for value in (1.0, "1.0", " north  wing", "007", True, "?", None)]
    ['1', '1', 'north wing', '007', 'True', None, None]
    """
    if value is None:
        return None
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        if value != value:
            return None
        number = float(value)
        return str(int(number)) if abs(number) < 1e16 and number.is_integer() else str(value)
    text = printable(" ".join(str(value).split()))
    if text.lower() in MISSING:
        return None
    if len(text) > 300 or not _NUMBER.fullmatch(text) or _ZERO_PADDED.fullmatch(text):
        return text
    if text.lstrip("+-").isdigit():
        return str(int(text))
    return text_of(float(text)) if np.isfinite(float(text)) else text


@dataclass(frozen=True, eq=False)
class Cells:
    """A column of a table: its name and its cells, with null for missing ones."""

    name: str
    array: pa.ChunkedArray

    def __len__(self) -> int:
        return len(self.array)

    @property
    def is_logical(self) -> bool:
        """Whether the cells are true or false."""
        return bool(pa.types.is_boolean(self.array.type))

    @property
    def is_numeric(self) -> bool:
        """Whether the cells are stored as numbers, or as true and false."""
        types = pa.types
        numeric = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal)
        return any(is_type(self.array.type) for is_type in numeric)

    @cached_property
    def texts(self) -> tuple[np.ndarray, list[str]]:
        """The code of each cell's text (−1 if missing), and the distinct texts."""
        array = self.array
        if pa.types.is_dictionary(array.type):
            array = array.cast(array.type.value_type)
        encoded = array.combine_chunks().dictionary_encode()
        names: dict[str, int] = {}
        # The last entry, which the code −1 selects, is for missing values.
        position = np.full(len(encoded.dictionary) + 1, -1)
        for code, value in enumerate(encoded.dictionary.to_pylist()):
            if (text := text_of(value)) is not None:
                position[code] = names.setdefault(text, len(names))
        return position[np.asarray(encoded.indices.fill_null(-1))], list(names)

    @property
    def text_list(self) -> list[str | None]:
        """The text of each cell, or None if it is missing."""
        codes, names = self.texts
        names_or_none = [*names, None]
        return [names_or_none[code] for code in codes]

    def numbers(self, where: str) -> np.ndarray:
        """Return the cells as float64, with NaN if missing; `where` names the column in errors.

        An infinite number is an error: it comes from a failed computation, so neither it nor the
        mean of the other values can replace the true value.
        """
        if self.is_numeric:
            cells = np.array(self.array.cast(pa.float64(), safe=False))
        else:
            codes, names = self.texts
            parsed = np.full(len(names) + 1, np.nan)
            for code, name in enumerate(names):
                if name.lower() in FLAGS:
                    parsed[code] = FLAGS[name.lower()]
                elif _NUMBER.fullmatch(name):
                    parsed[code] = float(name)
                elif name.lower() not in MISSING_AMONG_NUMBERS:
                    row = int(np.flatnonzero(codes == code)[0]) + 1
                    raise DataError(f"{where} holds {quoted(name)} in row {row}, not a number")
            cells = parsed[codes]
        infinite = np.flatnonzero(np.isinf(cells))
        if len(infinite):
            raise DataError(
                f"{where} has {counted(len(infinite), 'infinite value')}, the first in row"
                f" {infinite[0] + 1}; replace them, leave them empty or drop the column"
            )
        return cells

    @cached_property
    def holds(self) -> Content:
        """What the cells hold.

        Text is a category, even if it spells numbers, unless all values are true or false (the
        numbers 1 and 0) or dates.
        """
        stored, types = self.array.type, pa.types
        if self.array.null_count == len(self.array):
            return "empty"
        if self.is_numeric:
            return "number"
        if types.is_dictionary(stored):
            return "category"
        if types.is_temporal(stored) or "pandas.period" in str(stored):
            return "date"
        if not (types.is_string(stored) or types.is_large_string(stored)):
            return "other"
        _, names = self.texts
        if not names:
            return "empty"
        if all(name.lower() in FLAGS for name in names):
            return "number"
        return "date" if all(map(_DATE.fullmatch, names)) else "category"


def cells_of(table: pa.Table, column: str) -> Cells:
    """Return a column of a table."""
    return Cells(column, table.column(column))


def arrow_array(values: Any) -> pa.Array:
    """Return values of any kind as a pyarrow array; NaN becomes null.

    Values of several types become text, and values without a text become empty structures, which
    are neither numbers nor text.
    """
    try:
        array = pa.array(values, from_pandas=True)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        cells = [None if value is None or value != value else value for value in values]
        there = [value for value in cells if value is not None]
        if all(isinstance(value, Real) and not isinstance(value, bool) for value in there):
            return pa.array([None if value is None else float(value) for value in cells])
        if all(isinstance(value, str | Real | np.bool_) for value in there):
            return pa.array([text_of(value) for value in cells], pa.string())
        return pa.array([None if value is None else {} for value in cells], pa.struct([]))
    return without_nan(array)


def without_nan(array: Any) -> Any:
    """Return an array with null instead of NaN."""
    if not pa.types.is_floating(array.type):
        return array
    return pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
