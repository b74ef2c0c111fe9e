"""The numbers printed in the paper, as typed objects: its tables of results, row by row.

They are read from ``paper.json`` in this folder, which documents its fields.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from shiftproof.core.errors import InvalidValue, UnknownName
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

    def row(self, name: str, marks: Sequence[str] | None = None) -> PaperRow:
        """Return the row with a name, printed or ours; rows of the same name differ by marks."""
        named = [row for row in self.rows if name in (row.name, row.ours)]
        if not named:
            known = dict.fromkeys(row.name for row in self.rows)
            raise UnknownName(f"row of {self.name}", name, known)
        if marks is None:
            if len(named) > 1:
                choices = ", ".join(f"({', '.join(row.marks)})" for row in named)
                raise InvalidValue(
                    f"{self.name} has {len(named)} rows {name!r}; choose one by its marks"
                    f" {', '.join(self.marks)}: {choices}"
                )
            return named[0]
        by_marks = {", ".join(row.marks): row for row in named}
        wanted = ", ".join(marks)
        if wanted not in by_marks:
            raise UnknownName(f"marks of {name} in {self.name}", wanted, by_marks)
        return by_marks[wanted]


def paper_table(name: str) -> PaperTable:
    """Return a table of the paper; for an unknown name, raise with the nearest ones.

    >>> paper_table("table1").row("IDM").values[1]
    Published(value=70.6, error=0.9, deviation=0.94..., runs=10)
    >>> paper_table("table2").row("vrex").ranking
    Ranks(mean=10.6, median=8, worst=20)
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
    return PaperTable(
        name=name,
        title=fields["title"],
        source=fields["source"],
        label=fields["label"],
        dataset=fields["dataset"],
        selection=fields["selection"],
        error=error,
        runs=runs,
        marks=tuple(fields["marks"]),
        columns=tuple(PaperColumn(**column) for column in fields["columns"]),
        average=fields["average"],
        ranking=tuple(fields["ranking"]),
        rows=rows,
        notes=tuple(fields["notes"]),
    )
