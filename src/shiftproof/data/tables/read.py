"""Read tables into pyarrow: CSV and Parquet files, and the frames of other libraries.

CSV is read strictly: a row that does not match the header is an error.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from shiftproof.core.errors import DataError
from shiftproof.core.files import LONGEST_LINE, gzip_lines
from shiftproof.core.text import quoted, reason_of
from shiftproof.data.tables.cell_types import (
    INFINITE,
    MISSING,
    MISSING_AMONG_NUMBERS,
    NOT_PADDED,
    arrow_array,
    without_nan,
)
from shiftproof.data.tables.column_names import one_line
from shiftproof.data.tables.csv_records import csv_records
from shiftproof.data.tables.vectors import list_block, vector_columns


def read_table(path: Path) -> pa.Table:
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
        table = _read_parquet(path) if start == b"PAR1" else _read_csv(_content(path), path.name)
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except IsADirectoryError as error:
        raise DataError(f"{path} is a folder, not a table") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is damaged or incomplete; copy or download it again") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror or error})") from error
    if not len(table) or not table.num_columns:
        raise DataError(f"{path.name} has a header but no rows")
    return table


def as_table(frame: Any, name: str) -> pa.Table:
    """Return a data frame of any library as a pyarrow table, with distinct one-line names."""
    if isinstance(frame, pa.Table):
        return named(frame.column_names, frame.columns, name)
    if hasattr(frame, "set_axis"):  # pandas allows cells of several types, and repeated names
        numbered = frame.set_axis(range(len(frame.columns)), axis=1)
        columns = [arrow_array(numbered[position]) for position in numbered]
    else:
        import narwhals as nw

        series = nw.from_native(frame, eager_only=True).iter_columns()
        columns = [without_nan(column.to_arrow()) for column in series]
    return named(list(frame.columns), columns, name)


def is_frame(data: Any) -> bool:
    """Whether data is a data frame of any library."""
    return hasattr(data, "columns") and hasattr(data, "shape")


def named(names: Sequence[object], columns: Sequence[Any], table: str) -> pa.Table:
    """Return columns as a table with a distinct one-line name for each."""
    lines = one_line(names)
    twice = [name for name, count in Counter(lines).items() if count > 1]
    if twice:
        raise DataError(f"{table} has two columns named {quoted(twice[0])}; rename one")
    return pa.table(list(columns), names=lines)


def _read_parquet(path: Path) -> pa.Table:
    import pyarrow.parquet as pq

    columns: dict[str, Any] = {}
    try:
        table = pq.read_table(path)
        vectors: dict[str, Any] = {}
        for name, column in zip(table.column_names, table.columns, strict=True):
            if name.startswith("__index_level_"):
                continue  # an index that pandas stored is not a column, unless it has a name
            block = list_block(column, name, path.name)
            if name in columns or name in vectors:
                raise DataError(f"{path.name} has two columns named {quoted(name)}; rename one")
            if block is None:
                columns[name] = without_nan(column)
            else:
                vectors |= vector_columns(name, block, path.name)
    except (pa.ArrowException, OSError, ValueError) as error:  # ValueError: metadata is not text
        reason = reason_of(error, 120)
        raise DataError(f"{path} is not readable Parquet ({reason})") from error
    return named([*columns, *vectors], [*columns.values(), *vectors.values()], path.name)


# --- CSV --------------------------------------------------------------------------------------

# A cell that pyarrow reads as a number but is not one: an identifier (007), or hexadecimal.
_NO_NUMBER = r"""[\n\r,;\t]["\s]*[+-]?0[0-9xX]"""
# Larger whole numbers may not be exact as floats.
_EXACT = 2.0**53
_MISSING_WORDS = sorted(
    {
        spelling
        for word in MISSING | MISSING_AMONG_NUMBERS
        for spelling in (word, word.upper(), word.capitalize())
    }
    | {"NaN"}
)


def _content(path: Path) -> bytes:
    """Return a file, unzipped; a line that could fill the memory is an error."""
    parts: list[bytes] = []
    with open(path, "rb") as file:
        if file.read(2) == b"\x1f\x8b":
            return b"".join(gzip_lines(path))
        file.seek(0)
        while part := file.read(LONGEST_LINE):
            if len(part) == LONGEST_LINE and b"\n" not in part:
                raise DataError(
                    f"{path.name} has a line of more than {LONGEST_LINE // 2**20} MiB, so it is not"
                    " a table; check the file, or split the line"
                )
            parts.append(part)
    return b"".join(parts)


def _read_csv(content: bytes, name: str) -> pa.Table:
    """Read a CSV file: numbers by pyarrow, and as text only the columns that hold other cells.

    pyarrow finds the same fields as Python's reader in a *plain* file: without zero bytes and bare
    carriage returns, and with every quote in a field that is quoted from end to end within its
    line.  Anything else (a row of another width, a field beyond the limit of Python's reader, text
    that is not UTF-8) is left to Python's reader, which names the line in errors.
    """
    delimiter, records = csv_records(io.BytesIO(content), name)
    header = next(records, None)
    if header is None:
        raise DataError(f"{name} is empty")
    columns = _plain_columns(content, delimiter, len(header))
    if columns is None:
        rows = list(zip(*records, strict=True)) or [()] * len(header)
        columns = [_typed(pa.array(cells, pa.large_string()), delimiter) for cells in rows]
    return named(header, columns, name)


def _plain_columns(content: bytes, delimiter: str, width: int) -> list[Any] | None:
    """Return the columns of a plain CSV file, or None if it is not plain."""
    content = content.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
    quoted_field = rb'(?:(?<=[\n%b])|\A)"(?:[^"\r\n]|"")*"(?=[\r\n%b]|\Z)' % (
        2 * (delimiter.encode(),)
    )
    if (
        b"\0" in content
        or (b"\r" in content and re.search(rb"\r(?!\n)", content))
        or (b'"' in content and b'"' in re.sub(quoted_field, b"", content))
    ):
        return None
    keys = [str(position) for position in range(width)]
    table = _split(content, delimiter, keys, {})
    if table is None:
        return None
    whole = pa.array([content], pa.large_binary())
    doubtful = pc.match_substring_regex(whole, _NO_NUMBER)[0].as_py()  # faster than Python's re
    words = [key for key in keys if doubtful or not _is_number(table.column(key))]
    unread = [key for key in words if not pa.types.is_string(table.column(key).type)]
    if unread:
        again = _split(content, delimiter, keys, dict.fromkeys(unread, pa.string()))
        if again is None:
            return None
        for key in unread:
            table = table.set_column(int(key), key, again.column(key))
    columns = []
    for key in keys:
        column = table.column(key)
        if key in words:
            if (pc.max(pc.binary_length(column)).as_py() or 0) > csv.field_size_limit():
                return None
            column = _typed(column.combine_chunks(), delimiter)
        columns.append(without_nan(column))
    return columns


def _split(content: bytes, delimiter: str, keys: list[str], types: dict[str, Any]) -> Any:
    """Return the rows after the header, only the columns of `types` if it names any, or None."""
    from pyarrow import csv as arrow_csv

    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(content),
            arrow_csv.ReadOptions(column_names=keys, skip_rows_after_names=1),
            arrow_csv.ParseOptions(delimiter=delimiter),
            arrow_csv.ConvertOptions(
                column_types=types,
                include_columns=list(types),
                null_values=_MISSING_WORDS,
                true_values=[],
                false_values=[],
            ),
        )
    except pa.ArrowInvalid:
        return None
    # Text that is not UTF-8 is read as bytes.
    return None if pa.binary() in table.schema.types else table


def _is_number(column: Any) -> bool:
    """Whether a column that pyarrow has read holds numbers, all of them exact."""
    if pa.types.is_integer(column.type):
        return True
    if not pa.types.is_floating(column.type):
        return False
    bounds = pc.min_max(column).as_py()
    return all(value is None or abs(value) < _EXACT for value in bounds.values())


def _typed(text: Any, delimiter: str) -> Any:
    """Return a column of text as numbers, if all its cells are, or as trimmed words."""
    encoded = text.dictionary_encode()
    words = pc.utf8_trim_whitespace(encoded.dictionary)
    spelled = words
    if delimiter == ";":
        spelled = pc.replace_substring_regex(words, r"^([+-]?[0-9]*),([0-9]+)$", r"\1.\2")
    number = pc.match_substring_regex(spelled, f"^(?:{NOT_PADDED}|{INFINITE})$")
    values = None
    if pc.any(number).as_py():
        allowed = _among(words, MISSING | MISSING_AMONG_NUMBERS)
        if pc.all(pc.or_(number, allowed)).as_py():
            values = _numbers(pc.if_else(number, spelled, None))
    if values is None:
        values = pc.if_else(_among(words, MISSING), None, words)
    return values.take(encoded.indices)


def _numbers(text: Any) -> Any:
    """Return the numbers as int64 or float64, or None if all are whole and some are too large."""
    text = pc.replace_substring_regex(text, r"^\+", "")  # pyarrow reads no plus signs
    if not pc.all(pc.match_substring_regex(text, "^-?[0-9]+$")).as_py():
        return text.cast(pa.float64())
    try:
        return text.cast(pa.int64())
    except pa.ArrowInvalid:
        return None


def _among(text: Any, words: Iterable[str]) -> Any:
    return pc.is_in(pc.utf8_lower(text), pa.array(sorted(words), text.type))
