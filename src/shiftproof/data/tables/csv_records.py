"""Read CSV as text, without pandas: as records, or as pieces of columns in pyarrow arrays.

pyarrow reads many lines at once.  It finds the same fields as Python's reader in pieces that are
*plain*: without zero bytes and carriage returns other than line ends, and with every quote in a
field that is quoted from end to end within its line.  Anything else (a row of another width, a
field beyond the limit of Python's reader, text that is not UTF-8) is left to Python's reader, which
names the line in errors.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any

from shiftproof.core.errors import DataError
from shiftproof.core.text import counted

# The delimiter is found in as many lines.
_HEAD = 100
_FIRST_BYTES = {
    b"PK": "is a zip archive or an Excel workbook; save the sheet as CSV",
    b"\xff\xfe": "is in UTF-16 or UTF-32; save it as CSV UTF-8",
    b"\xfe\xff": "is in UTF-16 or UTF-32; save it as CSV UTF-8",
}


def csv_records(file: Iterable[bytes], name: str) -> tuple[str, Iterator[list[str]]]:
    """Return the delimiter of a CSV file, and its header and rows, all with equally many fields."""
    lines = _decoded(file, name)
    head = list(itertools.islice(lines, _HEAD))
    delimiter = _delimiter(head)
    return delimiter, _records(itertools.chain(head, lines), delimiter, name)


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
    """Return the delimiter that splits the first two rows into the most, equally many, fields."""

    def fields(delimiter: str) -> tuple[bool, int]:
        rows = csv.reader(head, delimiter=delimiter, skipinitialspace=True)
        try:
            counts = [len(row) for row in itertools.islice(filter(None, rows), 2)]
        except csv.Error:
            return False, 0
        return len(set(counts)) == 1 and counts[0] > 1, max(counts, default=0)

    return max(",;\t", key=fields)  # the first one wins a tie


def _records(lines: Iterable[str], delimiter: str, name: str) -> Iterator[list[str]]:
    """Yield the header and the rows, all with equally many fields; blank lines are skipped."""
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


LINES_AT_ONCE = 50_000
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class NotPlain(Exception):
    """The file must be read with Python's reader."""


def record_pieces(lines: Iterable[bytes], name: str) -> tuple[str, list[str], Iterator[list[Any]]]:
    """Return the same as `plain_pieces`, by Python's reader."""
    import pyarrow as pa  # type: ignore[import-untyped]

    delimiter, records = csv_records(lines, name)
    header = next(records, None)
    if header is None:
        raise DataError(f"{name} is empty")
    blocks = iter(lambda: list(itertools.islice(records, LINES_AT_ONCE)), [])
    texts = ([pa.array(cells, pa.large_string()) for cells in zip(*b, strict=True)] for b in blocks)
    return delimiter, header, texts


def plain_pieces(lines: Iterable[bytes], name: str) -> tuple[str, list[str], Iterator[list[Any]]]:
    """Return the delimiter, the header, and pieces of the rows, with a pyarrow array per column.

    Raise `NotPlain`, also while pieces are read, and `DataError` for a damaged header.
    """
    lines = iter(lines)
    first = list(itertools.islice(lines, LINES_AT_ONCE))
    delimiter, records = csv_records(first[:_HEAD], name)
    header = next(records, None)
    if header is None:
        raise NotPlain
    return delimiter, header, _pieces(first, lines, delimiter, len(header))


def _pieces(
    first: list[bytes], lines: Iterator[bytes], delimiter: str, width: int
) -> Iterator[list[Any]]:
    quoted = re.compile(
        rb'(?:(?<=[\n%b])|\A)"(?:[^"\n]|"")*"(?=[\n%b]|\Z)' % (2 * (delimiter.encode(),))
    )
    first[:1] = [line.removeprefix(_BYTE_ORDER_MARK) for line in first[:1]]
    header = 1
    while first:
        block = b"".join(first)
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n")
        if b"\0" in block or b"\r" in block or (b'"' in block and b'"' in quoted.sub(b"", block)):
            raise NotPlain
        if block.strip(b"\n"):
            yield [column.slice(header) for column in _split(block, delimiter, width)]
            header = 0
        first = list(itertools.islice(lines, LINES_AT_ONCE))


def _split(block: bytes, delimiter: str, width: int) -> list[Any]:
    """Return the fields of whole lines as one pyarrow array per column."""
    import pyarrow as pa
    import pyarrow.compute as pc  # type: ignore[import-untyped]
    from pyarrow import csv as arrow_csv

    names = [str(place) for place in range(width)]
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(block),
            arrow_csv.ReadOptions(column_names=names, block_size=len(block) + 1),
            arrow_csv.ParseOptions(delimiter=delimiter),
            arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.large_string()), strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid as error:
        raise NotPlain from error
    columns = [column.combine_chunks() for column in table.columns]
    if any(pc.max(pc.utf8_length(each)).as_py() > csv.field_size_limit() for each in columns):
        raise NotPlain
    return columns
