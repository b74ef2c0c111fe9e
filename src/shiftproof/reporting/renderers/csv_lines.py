"""Tables as comma-separated values: one line a row, nothing but the texts."""

from __future__ import annotations

import csv
import io
import re

from shiftproof.core.text import printable
from shiftproof.reporting.table import Table

# A spreadsheet computes a cell that begins like this, unless it is a number.
_FORMULA = re.compile(r"[=@]|[+\-](?=.)")
_NUMBER = re.compile(r"[+\-]?(\d+\.?\d*|\.\d+)([eE][+\-]?\d+)?%?|[+\-]?(inf|nan)", re.IGNORECASE)


def as_csv(table: Table) -> str:
    """Return the headings and rows; captions, notes, errors, signs and marks are left out."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    lines = [[*table.heads, *(column.title for column in table.columns)]]
    lines += [[*row.labels, *(cell.text for cell in row.cells)] for row in table.rows]
    writer.writerows([map(csv_text, line) for line in lines])
    return out.getvalue()


def csv_text(text: str) -> str:
    """Return text that a spreadsheet shows and does not compute.

    >>> csv_text("=HYPERLINK(1)"), csv_text("-1.5"), csv_text("a=b"), csv_text("+")
    ("'=HYPERLINK(1)", '-1.5', 'a=b', '+')
    """
    text = printable(text)
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text
