"""Tables as fixed-width text: as DomainBed prints them, or with numbers aligned."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from shiftproof.reporting.table import Cell, Table

GAP = "  "
# The least and greatest width of the notes below an aligned table.
NARROWEST_NOTE, WIDEST_NOTE = 60, 100


def as_text(table: Table) -> str:
    """Return the table as DomainBed prints it: all columns equally wide."""
    lines = [[*table.heads, *(column.title for column in table.columns)]]
    lines += [[*row.labels, *map(_plain, row.cells)] for row in table.rows]
    width = max(table.width, *(len(text) for line in lines for text in line))
    body = [GAP.join(text.ljust(width) for text in line) + " " for line in lines]
    notes = [f"  {note}" for note in (table.caption, *table.notes) if note]
    return "\n".join([f"-------- {table.title}", *body, *notes]) + "\n"


def as_aligned_text(table: Table) -> str:
    """Return the table with aligned numbers, its title above and its notes below."""
    columns = [*label_columns(table), *figure_columns(table)]
    height = max(len(column.heading) for column in columns)
    padded = []
    for column in columns:
        texts = [""] * (height - len(column.heading)) + [*column.heading, *column.cells]
        padded.append([text.ljust(column.width) for text in texts])
    lines = [GAP.join(row).rstrip() for row in zip(*padded, strict=True)]
    lines.insert(height, "-" * width_of(columns))
    room = min(max(width_of(columns), NARROWEST_NOTE), WIDEST_NOTE)
    notes = [part for note in table.notes for part in textwrap.wrap(note, room)]
    return "\n".join([table.title, "", *lines, "", *notes]) + "\n"


class TextColumn(NamedTuple):
    """A fixed-width column: its wrapped heading, and the cells below it."""

    heading: tuple[str, ...]
    cells: tuple[str, ...]

    @property
    def width(self) -> int:
        """The width of its widest line."""
        return max(map(len, (*self.heading, *self.cells)), default=0)


def label_columns(table: Table) -> list[TextColumn]:
    """Return the label columns."""
    return [
        TextColumn((head,), tuple(row.labels[at] for row in table.rows))
        for at, head in enumerate(table.heads)
    ]


def figure_columns(table: Table) -> list[TextColumn]:
    """Return the columns of aligned numbers, with headings wrapped to their width."""
    columns = []
    for at, column in enumerate(table.columns):
        cells = [row.cells[at] for row in table.rows]
        width = max((len(cell.text) for cell in cells), default=0)
        texts = tuple(f"{c.text.rjust(width)} {after_number(c)}".rstrip() for c in cells)
        room = max(map(len, (*texts, *column.title.split())), default=1)
        columns.append(TextColumn(tuple(textwrap.wrap(column.title, room)), texts))
    return columns


def width_of(columns: Sequence[TextColumn]) -> int:
    """Return the width of columns side by side."""
    return sum(column.width for column in columns) + len(GAP) * (len(columns) - 1)


def after_number(cell: Cell) -> str:
    """Return what follows the number: its error and its sign."""
    return " ".join(filter(None, (cell.error and f"± {cell.error}", cell.sign)))


def _plain(cell: Cell) -> str:
    error = f" +/- {cell.error}" if cell.error else ""
    return f"{cell.text}{error} {cell.sign}".rstrip()
