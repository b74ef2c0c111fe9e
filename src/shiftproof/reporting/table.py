"""One model of a table.

`report.renderers` prints it as text, Markdown, LaTeX, CSV and on a terminal, the page as HTML.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shiftproof.sweeps.ranking import competition_ranks

NOTHING = "–"


@dataclass(frozen=True)
class Cell:
    """A number as printed, or words.

    ``error`` follows ±, and ``sign`` refers to a note.  ``mark`` is best, second or worse (than the
    baseline), or far (from the paper).  ``runs`` says where the number comes from, a trial each and
    separated by semicolons: trial seed, accuracy and, of a single run, hyper-parameter seed and
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
        """The number as printed, so that what looks equal is equal."""
        return None if self.text == NOTHING else float(self.text)


@dataclass(frozen=True)
class Column:
    """``better`` says whether high (1) or low (-1) numbers are good, or neither (0).

    A column of ``words`` is aligned left.  One that ``stays`` is seen on a narrow screen too, while
    the others scroll; one that is ``wide`` is seen on a wide screen alone.
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
        """Return a row with one label; a text stands for a plain cell.

        Some values come from files of strangers: what is neither is a `TypeError`.
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
    """A table with its title, a caption (what the numbers are) and notes.

    ``heads`` are the headings of the labels.  ``name`` is for files and references.  Rows are
    sorted by the column ``by`` (None: by none).  In text, columns are at least ``width`` wide.  The
    last ``foot`` rows summarise the others, and stay below them.
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
        """Return the table with the best, the second and those worse than ``baseline`` marked."""
        labels = [row.label for row in self.rows]
        reference = labels.index(baseline) if baseline in labels else None
        cells = [list(row.cells) for row in self.rows]
        for at, column in enumerate(self.columns):
            if column.better:
                found = marks([row[at].value for row in cells], column.better, reference)
                for row, mark in zip(cells, found, strict=True):
                    row[at] = replace(row[at], mark=mark)
        rows = [Row(r.labels, tuple(c)) for r, c in zip(self.rows, cells, strict=True)]
        return replace(self, rows=tuple(rows))


def marks(values: Sequence[float | None], better: int, baseline: int | None) -> list[str]:
    """Return ``best``, ``second``, ``worse`` (than the baseline) or nothing for each value.

    Equal values share a mark; where several are best, none is second.

    >>> marks([97.8, 98.1, 98.1, 97.5, None], better=1, baseline=0)
    ['', 'best', 'best', 'worse', '']
    """
    present = [better * value for value in values if value is not None]
    if not better or len(present) < 2:
        return [""] * len(values)
    ranks = iter(competition_ranks(present))
    reference = None if baseline is None else values[baseline]
    found = []
    for value in values:
        rank = 0 if value is None else next(ranks)
        worse = value is not None and reference is not None and better * (value - reference) < 0
        found.append({1: "best", 2: "second"}.get(rank, "worse" if worse else ""))
    return found
