"""Find the column names of a table without reading all rows or importing pandas or torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shiftproof.core.errors import DataError, UnknownName
from shiftproof.core.files import gzip_lines
from shiftproof.core.text import listed, printable
from shiftproof.data.tables.csv_records import csv_records

# Suffixes of NumPy array files; defined here because `array_files` imports NumPy.
ARRAYS = (".npy", ".npz")
JSON = ".json"


def one_line(names: Sequence[object]) -> list[str]:
    """Return each name on one line; an unnamed column is named by its number."""
    printed = [printable(" ".join(str(name).split())) for name in names]
    return [name or f"unnamed {position}" for position, name in enumerate(printed, 1)]


def column_name(columns: Sequence[str], table: str, parameter: str, given: str | None) -> str:
    """Return the name of the column `given`, by default the one named like `parameter`."""
    name = parameter if given is None else " ".join(given.split())
    if name in columns:
        return name
    if given is None:
        raise DataError(
            f"{table} has no column named {parameter!r}; set `{parameter}` to one of"
            f" {listed(columns)}"
        )
    raise UnknownName(f"column of {table}", given, columns)


def column_names(
    columns: Sequence[str], table: str, parameter: str, given: str | None
) -> list[str]:
    """Return the columns that `given` names: one, or several separated by commas.

    >>> column_names(["site", "year", "a,b"], "t.csv", "domain", "site, year")
    ['site', 'year']
    >>> column_names(["site", "year", "a,b"], "t.csv", "domain", "a,b")
    ['a,b']
    """
    if given is None or " ".join(given.split()) in columns or "," not in given:
        return [column_name(columns, table, parameter, given)]
    return [column_name(columns, table, parameter, part) for part in given.split(",")]


def header_of(path: Path) -> list[str] | None:
    """Return the column names of a CSV file, or None for other files; no rows are an error."""
    if path.suffix.lower() in (*ARRAYS, JSON):
        return None
    try:
        with open(path, "rb") as file:
            start = file.read(4)
            if start in (b"PAR1", b"\x93NUM", b"PK\x03\x04"):  # Parquet, NumPy, an archive
                return None
            if start[:1] == b"{":  # JSON
                return None
            file.seek(0)
            lines = gzip_lines(path) if start.startswith(b"\x1f\x8b") else file
            _, records = csv_records(lines, path.name)
            header, first = next(records, None), next(records, None)
    except (OSError, EOFError):
        return None  # reading the table will report the error
    if header is None:
        raise DataError(f"{path.name} is empty")
    if first is None:
        raise DataError(f"{path.name} has a header but no rows")
    return one_line(header)
