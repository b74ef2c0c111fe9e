"""The data model of a table.

`reporting.renderers` renders it as text, Markdown, LaTeX, CSV and for a terminal, `reporting.page`
as HTML.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shiftproof.sweeps.comparisons import competition_ranks

NOTHING = "–"


@dataclass(frozen=True)
class Cell:
    """A cell: a number as printed, or text.

    ``error`` is printed after ±, and ``sign`` refers to a note.  ``mark`` is best, second, worse
    (than the baseline) or far (from the paper).  ``runs`` lists the trials behind the number,
    separated by semicolons: trial seed, accuracy and, for a single run, hyper-parameter seed and
    step.  ``interval`` is printed beside the number.
    """

    text: str = NOTHING
    error: str = ""
    sign: str = ""
    mark: str = ""
    runs: str = ""
    interval: str = ""

    @property
    def value(self) -> float | None:
        """The number as printed, so that numbers that look equal compare equal."""
        return None if self.text == NOTHING else float(self.text)


@dataclass(frozen=True)
class Column:
    """A column; ``better`` says whether high (1) or low (-1) numbers are good, or neither (0).

    A column of ``words`` is left-aligned.  On a narrow screen, a column that ``stays`` remains
    visible while the others scroll, and a ``wide`` column is hidden.
    """

    title: str
    better: int = 0
    words: bool = False
    stays: bool = False
    wide: bool = False


@dataclass(frozen=True)
class Row:
    """Labels and cells.  A row whose first label is empty continues the row above."""

    labels: tuple[str, ...]
    cells: tuple[Cell, ...]

    @classmethod
    def of(cls, label: str, *cells: Cell | str) -> Row:
        """Return a row with one label; a string becomes a plain cell.

        Some values come from untrusted files, so any other type raises `TypeError`.
        """
        for part in (label, *cells):
            if not isinstance(part, str | Cell):
                raise TypeError(f"a cell is a text, not {type(part).__name__}")
        return cls((label,), tuple(Cell(c) if isinstance(c, str) else c for c in cells))

    @property
    def label(self) -> str:
        """The first label."""
        return self.labels[0]


@dataclass(frozen=True)
class Table:
    """A table with a title, a caption (what the numbers are) and notes.

    ``heads`` are the headings of the label columns.  ``name`` is used in file names and references.
    Rows are sorted by column ``by`` (None: unsorted).  In text, columns are at least ``width``
    wide.  The last ``foot`` rows summarise the others and stay below them.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    caption: str = ""
    notes: tuple[str, ...] = ()
    heads: tuple[str, ...] = ("Algorithm",)
    name: str = ""
    by: int | None = None
    width: int = 0
    foot: int = 0

    def __post_init__(self) -> None:
        for row in self.rows:
            if (len(row.labels), len(row.cells)) != (len(self.heads), len(self.columns)):
                raise ValueError(f"row {row.label} of {self.title} does not fit its headings")

    def marked(self, baseline: str | None = None) -> Table:
        """Return the table with the best, second-best and worse-than-``baseline`` cells marked."""
        labels = [row.label for row in self.rows]
        reference = labels.index(baseline) if baseline in labels else None
        cells = [list(row.cells) for row in self.rows]
        for at, column in enumerate(self.columns):
            if column.better:
                signs = marks([row[at].value for row in cells], column.better, reference)
                for row, mark in zip(cells, signs, strict=True):
                    row[at] = replace(row[at], mark=mark)
        rows = [Row(r.labels, tuple(c)) for r, c in zip(self.rows, cells, strict=True)]
        return replace(self, rows=tuple(rows))


def marks(values: Sequence[float | None], better: int, baseline: int | None) -> list[str]:
    """Return ``best``, ``second``, ``worse`` (than the baseline) or an empty string for each value.

    Equal values share a mark; if several are best, none is second.

    >>> marks([97.8, 98.1, 98.1, 97.5, None], better=1, baseline=0)
    ['', 'best', 'best', 'worse', '']
    """
    present = [better * value for value in values if value is not None]
    if not better or len(present) < 2:
        return [""] * len(values)
    ranks = iter(competition_ranks(present))
    reference = None if baseline is None else values[baseline]
    result = []
    for value in values:
        rank = 0 if value is None else next(ranks)
        worse = value is not None and reference is not None and better * (value - reference) < 0
        result.append({1: "best", 2: "second"}.get(rank, "worse" if worse else ""))
    return result
