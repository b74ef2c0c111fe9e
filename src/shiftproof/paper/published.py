"""The numbers printed in the paper, as typed objects: its tables of results, row by row.

They are read from ``paper.json`` in this folder, which documents its fields.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from shiftproof.core.errors import UnknownName
from shiftproof.paper.comparison import Published
from shiftproof.sweeps.comparisons import Ranks

PrintedError = Literal["standard deviation", "standard error"]


class PaperColumn(NamedTuple):
    """A column: its heading in the paper, and our name for it.

    ``ours`` is the test domain, in Table 2 the dataset, and in the running times the algorithm;
    None if we have no name for it.  ``group`` is a heading over several columns.
    """

    name: str
    ours: str | None
    unit: str
    group: str = ""


class PaperRow(NamedTuple):
    """A row: its printed name, our name for the algorithm (or dataset), and its numbers.

    ``marks`` say which parts of the algorithm are used (yes, no, -), ``values`` are in the order of
    the table's columns, and ``ranking`` is as printed, the mean to one decimal.
    """

    name: str
    ours: str
    marks: tuple[str, ...]
    values: tuple[Published, ...]
    average: Published | None = None
    ranking: Ranks | None = None


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper.

    ``source`` is its number in the order of the captions, and ``label`` its label in the paper's
    LaTeX.  ``dataset`` and ``selection`` are our names, or None.  ``error`` is the meaning of ±,
    over ``runs`` runs.  ``average`` and ``ranking`` are the headings of the columns after
    ``columns``, if any.  ``notes`` say where the paper contradicts itself.
    """

    name: str
    title: str
    source: str
    label: str
    dataset: str | None
    selection: str | None
    error: PrintedError | None
    runs: int | None
    marks: tuple[str, ...]
    columns: tuple[PaperColumn, ...]
    average: str | None
    ranking: tuple[str, ...]
    rows: tuple[PaperRow, ...]
    notes: tuple[str, ...]


def paper_table(name: str) -> PaperTable:
    """Return a table of the paper; for an unknown name, raise with the nearest ones.

    >>> paper_table("table1").rows[-1].values[1]
    Published(value=70.6, error=0.9, deviation=0.94..., runs=10)
    """
    tables = paper_tables()
    if name not in tables:
        raise UnknownName("table of the paper", name, tables)
    return tables[name]


@cache
def paper_tables() -> dict[str, PaperTable]:
    """Return the tables of the paper by name."""
    text = files("shiftproof.paper").joinpath("paper.json").read_text(encoding="utf-8")
    tables = json.loads(text)["tables"]
    return {name: _table(name, fields) for name, fields in tables.items()}


def _deviation(printed: float, error: PrintedError, runs: int) -> float:
    """Return the standard deviation of a single run, computed from a printed error.

    Printed errors use the population standard deviation (NumPy's default, both in the scripts
    behind Table 1 and in DomainBed), which is too small by √(n / (n − 1)).
    """
    # A printed 0.0 means less than 0.05, not zero.
    printed = max(printed, 0.05)
    of_population = printed if error == "standard deviation" else printed * math.sqrt(runs)
    return of_population * math.sqrt(runs / (runs - 1))


def _table(name: str, fields: dict[str, Any]) -> PaperTable:
    error, runs = fields["error"], fields["runs"]

    def published(cell: float | list[float]) -> Published:
        if not isinstance(cell, list):
            return Published(cell)
        value, printed = cell
        return Published(value, printed, _deviation(printed, error, runs), runs)

    rows = tuple(
        PaperRow(
            row["name"],
            row["ours"],
            tuple(row.get("marks", ())),
            tuple(map(published, row["values"])),
            published(row["average"]) if "average" in row else None,
            Ranks(*row["ranking"]) if "ranking" in row else None,
        )
        for row in fields["rows"]
    )
    lists = {key: tuple(fields[key]) for key in ("marks", "ranking", "notes")}
    columns = tuple(PaperColumn(**column) for column in fields["columns"])
    return PaperTable(**{**fields, **lists, "name": name, "columns": columns, "rows": rows})
