"""Table files, CSV or Parquet, read strictly: a row that does not fit its header is an error."""

from __future__ import annotations

import csv
import gzip
import itertools
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shiftproof.core.errors import DataError
from shiftproof.core.gzip_lines import gzip_lines
from shiftproof.core.text import counted, reason_of
from shiftproof.data.tables.cell_types import (
    INFINITE,
    MISSING,
    MISSING_AMONG_NUMBERS,
    NUMBER,
    ZERO_PADDED,
    named,
)

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

_ROWS_AT_ONCE = 50_000
_FIRST_BYTES = {
    b"PK": "is a zip archive or an Excel workbook; save the sheet as CSV",
    b"\xff\xfe": "is in UTF-16 or UTF-32; save it as CSV UTF-8",
    b"\xfe\xff": "is in UTF-16 or UTF-32; save it as CSV UTF-8",
}


def read_frame(path: Path) -> pd.DataFrame:
    """Read a table: CSV, perhaps gzipped, or Parquet; the content says which.

    CSV is in UTF-8 and separated by commas, semicolons (then a comma in a number is its decimal
    point) or tabs.  White space around values is ignored.  A column in which every value is a
    number becomes numbers, unless they are zero-padded or too large for 64 bits, as identifiers
    are; any other column is text.
    """
    try:
        with open(path, "rb") as file:
            start = file.read(4)
        if start == b"PAR1":
            frame = _read_parquet(path)
        elif start.startswith(b"\x1f\x8b"):
            frame = _read_csv(gzip_lines(path), path.name)
        else:
            with open(path, "rb") as file:
                frame = _read_csv(file, path.name)
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


def _read_parquet(path: Path) -> pd.DataFrame:
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    try:
        table = pq.read_table(path)
        # The index that pandas stored is not a column, unless it was given a name.
        names = [name for name in table.column_names if not name.startswith("__index_level_")]
        twice = len(set(names)) < len(names)
        frame = (table if twice else table.select(names)).to_pandas(
            ignore_metadata=True, integer_object_nulls=True
        )
    except (pa.ArrowException, OSError, ValueError) as error:  # the last: metadata that is no text
        reason = reason_of(error, 120)
        raise DataError(f"{path} is not readable Parquet ({reason})") from error
    return named(frame, path.name)


def _read_csv(file: Iterable[bytes], name: str) -> pd.DataFrame:
    import pandas as pd
    import pyarrow as pa

    lines = _decoded(file, name)
    head = list(itertools.islice(lines, 100))
    delimiter = _delimiter(head)
    records = _records(itertools.chain(head, lines), delimiter, name)
    header = next(records, None)
    if header is None:
        raise DataError(f"{name} is empty")
    pieces: list[list[Any]] = [[] for _ in header]
    while rows := list(itertools.islice(records, _ROWS_AT_ONCE)):
        for piece, cells in zip(pieces, zip(*rows, strict=True), strict=True):
            piece.append(pa.array(cells, pa.large_string()))
    names = named(pd.DataFrame(columns=header), name).columns
    columns = [_typed(pa.chunked_array(piece, pa.large_string()), delimiter) for piece in pieces]
    return pd.DataFrame(dict(zip(names, columns, strict=True)))


def _decoded(file: Iterable[bytes], name: str) -> Iterator[str]:
    """Yield the lines of a file; an error names the first line that is not text in UTF-8."""
    for number, line in enumerate(file, 1):
        if number == 1:
            for first, what in _FIRST_BYTES.items():
                if line.startswith(first):
                    raise DataError(f"{name} {what}")
        if b"\0" in line:
            raise DataError(f"{name} is not text: there is a zero byte in line {number}")
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name} is not in UTF-8: byte 0x{line[error.start]:02x} in line {number}; if it is"
                " in Latin-1 or Windows-1252, save it as UTF-8"
            ) from error


def _delimiter(head: list[str]) -> str:
    """Return the delimiter that splits the first two rows into equally many, and most, fields."""

    def fields(delimiter: str) -> tuple[bool, int]:
        rows = csv.reader(head, delimiter=delimiter, skipinitialspace=True)
        try:
            counts = [len(row) for row in itertools.islice(filter(None, rows), 2)]
        except csv.Error:
            return False, 0
        return len(set(counts)) == 1 and counts[0] > 1, max(counts, default=0)

    return max(",;\t", key=fields)  # the first of equals


def _records(lines: Iterable[str], delimiter: str, name: str) -> Iterator[list[str]]:
    """Yield the header and the rows, all with as many fields; blank lines are skipped."""
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
    width = 0
    while True:
        start = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(f"{name}, line {start}: {_reason(str(error))}") from error
        if not row:
            continue
        width = width or len(row)
        if len(row) != width:
            raise DataError(
                f"{name}, line {start}: {counted(len(row), 'field')} where the header has {width};"
                " correct the line (a value that contains the separator must be in quotes)"
            )
        yield row


def _reason(error: str) -> str:
    if "end of data" in error:
        return "a quote is never closed"
    if "new-line character" in error:
        return "a bare carriage return; save the file with LF or CRLF line endings"
    if "field limit" in error:
        return f"a field of more than {csv.field_size_limit()} characters; a quote may be open"
    return error


def _typed(text: Any, delimiter: str) -> pd.Series:
    """Return a column of text as numbers if all its values are, else as text; both with NaN."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc  # type: ignore[import-untyped]

    def matches(pattern: str) -> np.ndarray:
        return np.asarray(pc.match_substring_regex(text, f"^(?:{pattern})$"), dtype=bool)

    def among(words: Iterable[str]) -> np.ndarray:
        return np.asarray(pc.is_in(lower, pa.array(sorted(words), lower.type)), dtype=bool)

    spelled = text = pc.utf8_trim_whitespace(text)
    lower = pc.utf8_lower(text)
    missing = among(MISSING)
    if delimiter == ";":
        text = pc.replace_substring_regex(text, r"^([+-]?[0-9]*),([0-9]+)$", r"\1.\2")
    number = matches(f"{NUMBER}|{INFINITE}") & ~matches(f"(?s:{ZERO_PADDED})")
    if number.any() and (number | missing | among(MISSING_AMONG_NUMBERS)).all():
        cells = np.where(number, np.asarray(text, dtype=object), "0")
        if not matches("[+-]?[0-9]+")[number].all():
            return pd.Series(np.where(number, cells.astype(np.float64), np.nan))
        try:
            whole = cells.astype(np.int64)
        except (OverflowError, ValueError):  # also of more digits than Python converts
            missing = ~number
        else:
            return pd.Series(whole if number.all() else pd.arrays.IntegerArray(whole, ~number))
    words = np.array(spelled, dtype=object)
    words[missing] = None
    return pd.Series(words)
