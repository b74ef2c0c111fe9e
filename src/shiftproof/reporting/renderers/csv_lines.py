"""Tables as CSV: one line per row, with the text of each cell only."""

from __future__ import annotations

import csv
import io
import re

from shiftproof.core.text import printable
from shiftproof.reporting.table import Table

# A spreadsheet evaluates a cell that begins like this, unless it is a number.
_FORMULA = re.compile(r"[=@]|[+\-](?=.)")
_NUMBER = re.compile(r"[+\-]?(\d+\.?\d*|\.\d+)([eE][+\-]?\d+)?%?|[+\-]?(inf|nan)", re.IGNORECASE)


def as_csv(table: Table) -> str:
    """Return headings and rows, without captions, notes, errors, signs and marks."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    lines = [[*table.heads, *(column.title for column in table.columns)]]
    lines += [[*row.labels, *(cell.text for cell in row.cells)] for row in table.rows]
    writer.writerows([map(csv_text, line) for line in lines])
    return out.getvalue()


def csv_text(text: str) -> str:
    """Escape text that a spreadsheet would evaluate as a formula.

    >>> csv_text("=HYPERLINK(1)"), csv_text("-1.5"), csv_text("a=b"), csv_text("+")
    ("'=HYPERLINK(1)", '-1.5', 'a=b', '+')
    """
    text = printable(text)
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text
