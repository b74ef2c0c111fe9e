"""Tables as comma-separated values: one line a row, nothing but the texts."""

from __future__ import annotations

import csv
import io

from shiftproof.reporting.table import Table


def as_csv(table: Table) -> str:
    """Return the headings and rows; captions, notes, errors, signs and marks are left out."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*table.heads, *(column.title for column in table.columns)])
    for row in table.rows:
        writer.writerow([*row.labels, *(cell.text for cell in row.cells)])
    return out.getvalue()
