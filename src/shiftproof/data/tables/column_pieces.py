"""Convert text columns to numbers or words piece by piece, to keep memory small.

A column whose values are all numbers becomes numeric, unless they are zero-padded or too large for
64 bits, like identifiers; any other column becomes words.  Either may have missing values.  Rules
apply to whole columns rather than cells, in a few pyarrow passes over each piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from shiftproof.data.tables.cell_types import INFINITE, MISSING, MISSING_AMONG_NUMBERS, NOT_PADDED

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

_FIRST = 100


@dataclass(frozen=True)
class Piece:
    """Some rows of a column: which values are missing, and the others as numbers or as words.

    Numbers are int64 or float64, with 0 for missing values.  Words are a pyarrow dictionary array.
    A piece without any value has neither.
    """

    missing: np.ndarray
    numbers: np.ndarray | None = None
    words: Any = None


def piece_of(text: Any, delimiter: str) -> Piece:
    """Convert a pyarrow array of text to a piece of a column."""
    import pyarrow.compute as pc  # type: ignore[import-untyped]

    spelled = text = pc.utf8_trim_whitespace(text)
    if delimiter == ";":
        text = pc.replace_substring_regex(text, r"^([+-]?[0-9]*),([0-9]+)$", r"\1.\2")
    number = _flags(pc.match_substring_regex(text, f"^(?:{NOT_PADDED}|{INFINITE})$"))
    missing = ~number
    if missing.any():
        lower = pc.utf8_lower(spelled)
        missing = _among(lower, MISSING)
        if missing.all():
            return Piece(missing)
        if not number.any() or not (number | missing | _among(lower, MISSING_AMONG_NUMBERS)).all():
            return Piece(missing, words=spelled.dictionary_encode())
    numbers = _numbers(text, number)
    words = spelled.dictionary_encode() if numbers is None else None
    return Piece(~number, numbers, words)


def joined(pieces: Sequence[Piece]) -> pd.Series | None:
    """Join the pieces of a column, with NaN or None for missing values.

    Return None if some pieces are numbers and others are words: all must then be read as words.
    """
    import pandas as pd

    missing = np.concatenate([piece.missing for piece in pieces])
    known = [piece for piece in pieces if not piece.missing.all()]
    if any(piece.words is not None for piece in known):
        if any(piece.words is None for piece in known):
            return None
        cells = np.concatenate([_cells(piece) for piece in pieces])
        cells[missing] = None
        return pd.Series(cells)
    if not known:
        return pd.Series(np.full(len(missing), None, dtype=object))
    numbers = np.concatenate(
        [np.zeros(len(each.missing), np.int64) if each.numbers is None else each.numbers
         for each in pieces]
    )  # fmt: skip
    if numbers.dtype == np.float64:
        numbers[missing] = np.nan
        return pd.Series(numbers)
    return pd.Series(pd.arrays.IntegerArray(numbers, missing) if missing.any() else numbers)


def _cells(piece: Piece) -> np.ndarray:
    """Return the words of a piece; equal words are one object."""
    if piece.words is None:
        return np.full(len(piece.missing), None, dtype=object)
    distinct = np.array(piece.words.dictionary.to_pylist(), dtype=object)
    cells: np.ndarray = distinct[np.asarray(piece.words.indices)]
    return cells


def _numbers(text: Any, number: np.ndarray) -> np.ndarray | None:
    """Return the numbers as int64 or float64, or None if all are whole and some are too large."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not number.all():
        text = pc.if_else(pa.array(number), text, "0")
    text = pc.replace_substring_regex(text, r"^\+", "")  # pyarrow reads no plus signs
    # In most columns that are not whole, the first rows already show it.
    if not _whole(text[:_FIRST]).all() or not _whole(text).all():
        return np.asarray(text.cast(pa.float64()))
    try:
        return np.asarray(text.cast(pa.int64()))
    except pa.ArrowInvalid:
        return None


def _whole(text: Any) -> np.ndarray:
    import pyarrow.compute as pc

    return _flags(pc.match_substring_regex(text, "^-?[0-9]+$"))


def _flags(found: Any) -> np.ndarray:
    return np.asarray(found, dtype=bool)


def _among(lower: Any, words: Iterable[str]) -> np.ndarray:
    import pyarrow as pa
    import pyarrow.compute as pc

    return _flags(pc.is_in(lower, pa.array(sorted(words), lower.type)))
