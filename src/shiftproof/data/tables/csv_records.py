"""Read CSV as text with Python's reader, which names the line in errors; pyarrow is not needed."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterable, Iterator

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
