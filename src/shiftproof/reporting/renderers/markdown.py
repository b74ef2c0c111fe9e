"""Tables in Markdown; the best value of a column and values far from the paper are bold."""

from __future__ import annotations

import re
from collections.abc import Iterable

from shiftproof.reporting.renderers.text import after_number
from shiftproof.reporting.table import Cell, Table


def as_markdown(table: Table) -> str:
    """Return the table under a heading, with its caption and notes below."""
    titles = [*table.heads, *(column.title for column in table.columns)]
    sides = ["---"] * len(table.heads) + ["---:"] * len(table.columns)
    rows = [[*map(markdown_text, row.labels), *map(_cell, row.cells)] for row in table.rows]
    lines = [f"### {markdown_text(table.title)}", ""]
    lines += map(_line, (map(markdown_text, titles), sides, *rows))
    if table.caption:
        lines += ["", markdown_text(table.caption)]
    if table.notes:
        lines += ["", *(f"- {markdown_text(note)}" for note in table.notes)]
    return "\n".join(lines) + "\n"


def markdown_text(text: str) -> str:
    """Escape text for Markdown.

    >>> markdown_text("a_b")
    'a\\\\_b'
    """
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", text)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(cell: Cell) -> str:
    text = f"**{cell.text}**" if cell.mark == "best" else cell.text
    whole = f"{text} {markdown_text(after_number(cell))}".rstrip()
    return f"**{whole}**" if cell.mark == "far" else whole
