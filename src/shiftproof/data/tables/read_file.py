"""Read CSV and Parquet files strictly: a row that does not match the header is an error."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shiftproof.core.errors import DataError
from shiftproof.core.files import LONGEST_LINE, gzip_lines
from shiftproof.core.text import reason_of
from shiftproof.data.tables.cell_types import (
    INFINITE,
    MISSING,
    MISSING_AMONG_NUMBERS,
    NOT_PADDED,
    named,
)
from shiftproof.data.tables.csv_records import NotPlain, plain_pieces, record_pieces
from shiftproof.data.tables.vectors import list_block, vector_frame

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]


def read_frame(path: Path) -> pd.DataFrame:
    """Read a table from CSV, optionally gzipped, or Parquet; the content decides the format.

    CSV is in UTF-8 and separated by commas, semicolons (a comma in a number is then its decimal
    point) or tabs.  White space around values is ignored.  A column whose values are all numbers
    becomes numeric, unless they are zero-padded or too large for 64 bits, like identifiers; any
    other column is text.  A Parquet list column, with a vector of numbers in each row, becomes one
    column per component (`data.tables.vectors`).
    """
    try:
        with open(path, "rb") as file:
            start = file.read(4)
        if start == b"PAR1":
            frame = _read_parquet(path)
        elif start.startswith(b"\x1f\x8b"):
            frame = _read_csv(lambda: gzip_lines(path), path.name)
        else:
            frame = _read_csv(lambda: _lines(path), path.name)
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except IsADirectoryError as error:
        raise DataError(f"{path} is a folder, not a table") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is damaged or incomplete; copy or download it again") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror or error})") from error
    if frame.empty:
        raise DataError(f"{path.name} has a header but no rows")
    return frame


def _lines(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while line := file.readline(LONGEST_LINE + 1):
            if len(line) > LONGEST_LINE:  # it could fill the memory
                raise DataError(
                    f"{path.name} has a line of more than {LONGEST_LINE // 2**20} MiB, so it is not"
                    " a table; check the file, or split the line"
                )
            yield line


def _read_parquet(path: Path) -> pd.DataFrame:
    import pandas as pd
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    try:
        table = pq.read_table(path)
        # An index that pandas stored is not a column, unless it has a name.
        names = [name for name in table.column_names if not name.startswith("__index_level_")]
        twice = len(set(names)) < len(names)
        table = table if twice else table.select(names)
        blocks = {
            place: block
            for place, (name, column) in enumerate(zip(table.column_names, table, strict=True))
            if (block := list_block(column, name, path.name)) is not None
        }
        others = [place for place in range(table.num_columns) if place not in blocks]
        frame = table.select(others).to_pandas(ignore_metadata=True, integer_object_nulls=True)
        vectors = [
            vector_frame(table.column_names[place], block, path.name)
            for place, block in blocks.items()
        ]
        frame = pd.concat([frame, *vectors], axis=1) if vectors else frame
    except (pa.ArrowException, OSError, ValueError) as error:  # ValueError: metadata is not text
        reason = reason_of(error, 120)
        raise DataError(f"{path} is not readable Parquet ({reason})") from error
    return named(frame, path.name)


def _read_csv(lines: Callable[[], Iterable[bytes]], name: str) -> pd.DataFrame:
    """Read a CSV file; each call of `lines` returns its lines from the beginning."""
    import pandas as pd

    try:
        delimiter, header, blocks = plain_pieces(lines(), name)
        columns = _transposed(blocks, len(header))
    except NotPlain:
        delimiter, header, blocks = record_pieces(lines(), name)
        columns = _transposed(blocks, len(header))
    names = named(pd.DataFrame(columns=header), name).columns
    series = (_column(pieces, delimiter) for pieces in columns)
    return pd.DataFrame(dict(zip(names, series, strict=True)))


def _transposed(blocks: Iterable[Sequence[Any]], width: int) -> list[list[Any]]:
    """Return the pieces of each column, given blocks of rows with a piece per column."""
    columns: list[list[Any]] = [[] for _ in range(width)]
    for block in blocks:
        for pieces, piece in zip(columns, block, strict=True):
            pieces.append(piece)
    return columns


def _column(pieces: Sequence[Any], delimiter: str) -> pd.Series:
    """Convert a column of text, in pyarrow arrays, to numbers or words; missing is NaN or None.

    Integers with missing values become pandas' nullable integers.  Equal words are one object.
    """
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc  # type: ignore[import-untyped]

    text = pa.chunked_array(pieces, pa.large_string())
    spelled = text = pc.utf8_trim_whitespace(text).combine_chunks()
    if delimiter == ";":
        text = pc.replace_substring_regex(text, r"^([+-]?[0-9]*),([0-9]+)$", r"\1.\2")
    number = _flags(pc.match_substring_regex(text, f"^(?:{NOT_PADDED}|{INFINITE})$"))
    missing = ~number
    numbers = None
    if number.any() and (number | _among(spelled, MISSING | MISSING_AMONG_NUMBERS)).all():
        numbers = _numbers(text, number)
    else:
        missing = _among(spelled, MISSING)
    if numbers is None:
        words = spelled.dictionary_encode()
        cells = np.array([*words.dictionary.to_pylist(), None], dtype=object)
        return pd.Series(cells[np.where(missing, -1, np.asarray(words.indices))])
    if numbers.dtype == np.float64:
        return pd.Series(np.where(missing, np.nan, numbers))
    return pd.Series(pd.arrays.IntegerArray(numbers, missing) if missing.any() else numbers)


def _numbers(text: Any, number: np.ndarray) -> np.ndarray | None:
    """Return the numbers as int64 or float64, or None if all are whole and some are too large."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not number.all():
        text = pc.if_else(pa.array(number), text, "0")
    text = pc.replace_substring_regex(text, r"^\+", "")  # pyarrow reads no plus signs
    if not _flags(pc.match_substring_regex(text, "^-?[0-9]+$")).all():
        return np.asarray(text.cast(pa.float64()))
    try:
        return np.asarray(text.cast(pa.int64()))
    except pa.ArrowInvalid:
        return None


def _flags(values: Any) -> np.ndarray:
    return np.asarray(values, dtype=bool)


def _among(text: Any, words: Iterable[str]) -> np.ndarray:
    import pyarrow as pa
    import pyarrow.compute as pc

    return _flags(pc.is_in(pc.utf8_lower(text), pa.array(sorted(words), text.type)))
