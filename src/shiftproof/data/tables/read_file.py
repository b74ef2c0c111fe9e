"""Read CSV and Parquet files strictly: a row that does not match the header is an error."""

from __future__ import annotations

import gzip
import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftproof.core.errors import DataError
from shiftproof.core.files import LONGEST_LINE, gzip_lines
from shiftproof.core.text import reason_of
from shiftproof.data.tables.cell_types import named
from shiftproof.data.tables.column_pieces import Piece, joined, piece_of
from shiftproof.data.tables.csv_records import csv_records
from shiftproof.data.tables.plain_csv import LINES_AT_ONCE, NotPlain, plain_pieces
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
        pieces: list[list[Piece]] = [[] for _ in header]
        for block in blocks:
            for piece, text in zip(pieces, block, strict=True):
                piece.append(piece_of(text, delimiter))
        columns = [joined(each) if each else pd.Series(dtype=object) for each in pieces]
    except NotPlain:
        columns = [None]
    if any(column is None for column in columns):
        header, columns = _read_records(lines(), name)
    names = named(pd.DataFrame(columns=header), name).columns
    return pd.DataFrame(dict(zip(names, columns, strict=True)))


def _read_records(lines: Iterable[bytes], name: str) -> tuple[list[str], list[pd.Series]]:
    """Read a CSV file with Python's reader, which is slower but reports the line of an error."""
    import pyarrow as pa

    delimiter, records = csv_records(lines, name)
    header = next(records, None)
    if header is None:
        raise DataError(f"{name} is empty")
    blocks: list[list[Any]] = [[] for _ in header]
    while rows := list(itertools.islice(records, LINES_AT_ONCE)):
        for block, cells in zip(blocks, zip(*rows, strict=True), strict=True):
            block.append(pa.array(cells, pa.large_string()))
    whole = [pa.chunked_array(each, pa.large_string()).combine_chunks() for each in blocks]
    return header, [joined([piece_of(text, delimiter)]) for text in whole]
