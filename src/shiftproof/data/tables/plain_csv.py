"""Read CSV with pyarrow, many lines at once, where it finds the same fields as Python's reader.

The file is read in pieces of whole lines.  A piece is *plain* if it has no zero bytes and no
carriage returns other than line ends, and every quote belongs to a field that is quoted from end to
end within its line.  pyarrow then finds the same fields.  Anything else (a row of another width, a
field beyond the limit of Python's reader, text that is not UTF-8) is left to Python's reader, which
names the line in errors.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any

from shiftproof.data.tables.csv_records import csv_records

LINES_AT_ONCE = 50_000
_HEAD = 100
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class NotPlain(Exception):
    """The file must be read with Python's reader."""


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
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.compute as pc  # type: ignore[import-untyped]
    from pyarrow import csv as arrow_csv

    names = [str(place) for place in range(width)]
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(block),
            arrow_csv.ReadOptions(column_names=names, block_size=len(block) + 1),
            arrow_csv.ParseOptions(delimiter=delimiter),
            arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid as error:
        raise NotPlain from error
    columns = [column.combine_chunks() for column in table.columns]
    if any(pc.max(pc.utf8_length(each)).as_py() > csv.field_size_limit() for each in columns):
        raise NotPlain
    return columns
