"""Tables with aligned numbers for a terminal, split into parts if it is narrow."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from shiftproof.reporting.renderers.text import (
    GAP,
    NARROWEST_NOTE,
    TextColumn,
    figure_columns,
    label_columns,
    width_of,
)
from shiftproof.reporting.table import Table


def as_rich(table: Table, width: int = 80) -> RichTable:
    """Return the table for a terminal of ``width`` characters.

    Columns that do not fit go below the others, with the labels repeated.
    """
    labels, figures = label_columns(table), figure_columns(table)
    whole = RichTable.grid()
    whole.min_width = min(width, NARROWEST_NOTE)
    whole.title = Text(table.title, style="bold")
    whole.caption = Text("\n".join(table.notes))
    whole.title_justify = whole.caption_justify = "left"
    for part in _parts(figures, width - width_of(labels) - len(GAP)):
        whole.add_row("")
        whole.add_row(_part(table, labels, figures, part))
    whole.add_row("")
    return whole


def _parts(columns: Sequence[TextColumn], room: int) -> list[range]:
    """Split columns into as few parts as fit, with about equally many columns each."""
    for count in range(1, max(len(columns), 1) + 1):
        ends = [len(columns) * part // count for part in range(count + 1)]
        if all(width_of(columns[start:end]) <= room for start, end in pairwise(ends)):
            break
    return [range(start, end) for start, end in pairwise(ends)]


def _part(
    table: Table, labels: Sequence[TextColumn], figures: Sequence[TextColumn], part: range
) -> RichTable:
    """Return a table of the labels and some of the columns."""
    columns = [*labels, *(figures[at] for at in part)]
    shown = RichTable(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for column in columns:
        # Fold text that still does not fit: a truncated number would be a different number.
        shown.add_column(Text("\n".join(column.heading)), vertical="bottom", overflow="fold")
    for position, row in enumerate(table.rows):
        styles = ["bold"] * (len(labels) - 1) + ["dim"]
        styles += ["bold" if row.cells[at].mark == "far" else "" for at in part]
        texts = [column.cells[position] for column in columns]
        shown.add_row(*(Text(text, style=s) for text, s in zip(texts, styles, strict=True)))
    return shown
