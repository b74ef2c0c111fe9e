"""A table of the paper with ours beside it: for the terminal, as text, Markdown and LaTeX.

A row of the table takes up to three lines: the paper's figures, ours, and how far apart they are.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from rich import box
from rich.table import Table
from rich.text import Text

from shiftproof.paper.comparison import Cell, Comparison
from shiftproof.report.escapes import latex_text, markdown_text
from shiftproof.report.tables import NOTHING

# Further from the paper than this, in standard errors, is marked.
FAR = 2.0
# The share under chance is simulated in tests/paper/test_comparison.py.
FAR_NOTE = (
    "* more than two standard errors from the paper (of so few runs, chance alone puts 5 to 20% of"
    " figures there)"
)
GAP = "  "
# How wide the notes below a text are set, whatever the width of its table.
NARROWEST_NOTE, WIDEST_NOTE = 60, 100


class Printed(NamedTuple):
    """A figure as printed: its number, what follows it, and whether it is far from the paper's."""

    number: str = NOTHING
    rest: str = ""
    far: bool = False


class Line(NamedTuple):
    """A printed line: the row's name and marks (on its first line only), whose, and figures."""

    labels: tuple[str, ...]
    kind: str
    figures: tuple[Printed, ...]

    @property
    def starts_row(self) -> bool:
        """Whether it is the first of its row."""
        return self.kind == "paper"


class Column(NamedTuple):
    """A column in characters of fixed width: its heading, folded, and what is below it."""

    heading: tuple[str, ...]
    cells: tuple[str, ...]

    @property
    def width(self) -> int:
        """The width of its widest line."""
        return max(map(len, (*self.heading, *self.cells)), default=0)


def comparison_table(comparison: Comparison, width: int = 80) -> Table:
    """Return the comparison for a terminal of ``width`` characters.

    Columns that have no room beside the others go below them, with the rows' names once more.
    """
    lines = _lines(comparison)
    labels, figures = _label_columns(comparison, lines), _figure_columns(comparison, lines)
    whole = Table.grid()
    whole.min_width = min(width, NARROWEST_NOTE)
    whole.title = Text(comparison.title, style="bold")
    whole.caption = Text("\n".join(_notes(comparison, lines)))
    whole.title_justify = whole.caption_justify = "left"
    for part in _parts(figures, width - _width(labels) - len(GAP)):
        whole.add_row("")
        whole.add_row(_block(lines, labels, figures, part))
    whole.add_row("")
    return whole


def as_text(comparison: Comparison) -> str:
    """Return the comparison in characters of fixed width, numbers in line with each other."""
    lines = _lines(comparison)
    columns = [*_label_columns(comparison, lines), *_figure_columns(comparison, lines)]
    height = max(len(column.heading) for column in columns)
    padded = []
    for column in columns:
        texts = [""] * (height - len(column.heading)) + [*column.heading, *column.cells]
        padded.append([text.ljust(column.width) for text in texts])
    table = [GAP.join(row).rstrip() for row in zip(*padded, strict=True)]
    table.insert(height, "-" * _width(columns))
    room = min(max(_width(columns), NARROWEST_NOTE), WIDEST_NOTE)
    notes = [part for note in _notes(comparison, lines) for part in textwrap.wrap(note, room)]
    return "\n".join([comparison.title, "", *table, "", *notes]) + "\n"


def as_markdown(comparison: Comparison) -> str:
    """Return the comparison in Markdown; what is far from the paper is bold."""
    lines = _lines(comparison)
    header = ["", *comparison.marks, "", *comparison.columns]
    sides = [":--"] * (2 + len(comparison.marks)) + ["--:"] * len(comparison.columns)
    rows = [list(map(markdown_text, header)), sides]
    for line in lines:
        labels = [markdown_text(text) for text in (*line.labels, line.kind)]
        rows.append([*labels, *map(_markdown_figure, line.figures)])
    table = ["| " + " | ".join(row) + " |" for row in rows]
    notes = [f"- {markdown_text(note)}" for note in _notes(comparison, lines)]
    return "\n".join([f"### {markdown_text(comparison.title)}", "", *table, "", *notes]) + "\n"


def as_latex(comparison: Comparison) -> str:
    """Return the comparison as a table of LaTeX; what is far from the paper is bold."""
    lines = _lines(comparison)
    sides = "l" + "c" * len(comparison.marks) + "l" + r"r@{\,}l" * len(comparison.columns)
    heading = ["", *map(latex_text, comparison.marks), ""]
    for column in _figure_columns(comparison, lines):
        folded = r" \\ ".join(map(latex_text, column.heading))
        folded = rf"\shortstack{{{folded}}}" if len(column.heading) > 1 else folded
        heading.append(rf"\multicolumn{{2}}{{c}}{{{folded}}}")
    body = []
    for position, line in enumerate(lines):
        if position and line.starts_row:
            body.append(r"\addlinespace")
        cells = [*map(latex_text, (*line.labels, line.kind)), *map(_latex_figure, line.figures)]
        body.append(" & ".join(cells) + r" \\")
    return "\n".join(
        [
            r"% \usepackage{booktabs,adjustbox}  % what this table needs",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{latex_text(comparison.title)}}}",
            rf"\label{{tab:{comparison.name}}}",
            r"\adjustbox{max width=\textwidth, max totalheight=0.8\textheight}{%",
            rf"\begin{{tabular}}{{{sides}}}",
            r"\toprule",
            " & ".join(heading) + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}}",
            r"\par\smallskip",
            r"\begin{minipage}{\textwidth}\footnotesize\raggedright",
            *(latex_text(note) + r"\par" for note in _notes(comparison, lines)),
            r"\end{minipage}",
            r"\end{table}",
        ]
    ) + "\n"  # fmt: skip


def _lines(comparison: Comparison) -> list[Line]:
    places = _decimal_places(comparison)
    found = []
    for row in comparison.rows:
        cells = list(zip(row.cells, places, strict=True))
        kinds = {
            "paper": tuple(_paper(cell, digits) for cell, digits in cells),
            "ours": tuple(_ours(cell, digits, comparison) for cell, digits in cells),
        }
        if comparison.comparable and any(cell.difference is not None for cell in row.cells):
            kinds["diff"] = tuple(_apart(cell, digits) for cell, digits in cells)
        labels = (row.name, *row.marks)
        for kind, figures in kinds.items():
            found.append(Line(labels, kind, figures))
            labels = ("",) * len(labels)
    return found


def _decimal_places(comparison: Comparison) -> list[int]:
    """Say for each column how many decimals the paper prints there, and at least one.

    Where the paper has no figure it is as many as anywhere in the table.
    """
    printed = [
        max((_decimals(row.cells[position]) for row in comparison.rows), default=0)
        for position in range(len(comparison.columns))
    ]
    return [max(digits or max(printed), 1) for digits in printed]


def _decimals(cell: Cell) -> int:
    numbers = () if cell.paper is None else (cell.paper.value, cell.paper.error or 0.0)
    return max((len(f"{n:.6f}".rstrip("0").partition(".")[2]) for n in numbers), default=0)


def _paper(cell: Cell, digits: int) -> Printed:
    if cell.paper is None:
        return Printed()
    error = "" if cell.paper.error is None else f"± {cell.paper.error:.{digits}f}"
    return Printed(f"{cell.paper.value:.{digits}f}", error)


def _ours(cell: Cell, digits: int, comparison: Comparison) -> Printed:
    if cell.ours is None:
        return Printed()
    spread = {
        "standard deviation": cell.ours.deviation,
        "standard error": cell.ours.standard_error,
    }[comparison.error]
    rest = [] if spread is None else [f"± {spread:.{digits}f}"]
    rest += [f"({len(cell.ours.values)})"] * comparison.counts_runs
    return Printed(f"{cell.ours.mean:.{digits}f}", " ".join(rest))


def _apart(cell: Cell, digits: int) -> Printed:
    """Print the difference in standard errors, or as it is where none is known."""
    if cell.difference is None:
        return Printed()
    errors = cell.in_standard_errors
    if errors is None:
        return Printed(_signed(cell.difference, digits))
    far = abs(errors) > FAR
    return Printed(_signed(errors, 1), "s.e." + "*" * far, far)


def _signed(value: float, digits: int) -> str:
    text = f"{value:+.{digits}f}"
    return text if float(text) else text[1:]


def _notes(comparison: Comparison, lines: Sequence[Line]) -> Iterator[str]:
    """Yield what a reader must know: of the signs, and what the comparison says itself."""
    if any(figure.far for line in lines for figure in line.figures):
        yield FAR_NOTE
    if signs := "; ".join(_signs_explained(comparison, lines)):
        yield f"{signs[0].upper()}{signs[1:]}."
    yield from comparison.notes


def _signs_explained(comparison: Comparison, lines: Sequence[Line]) -> Iterator[str]:
    cells = [cell for row in comparison.rows for cell in row.cells]
    figures = [figure for line in lines for figure in line.figures]
    apart = [cell for cell in cells if comparison.comparable and cell.difference is not None]
    known = [cell for cell in apart if cell.in_standard_errors is not None]
    if comparison.unit:
        yield f"figures in {comparison.unit}"
    spread = {line.kind for line in lines if any("±" in figure.rest for figure in line.figures)}
    if spread:
        whose = {"paper": "of the paper's runs", "ours": "of our runs"}
        yield f"± {comparison.error} " + " and ".join(w for k, w in whose.items() if k in spread)
    if comparison.counts_runs and any(cell.ours is not None for cell in cells):
        yield "(n) number of our repetitions"
    if apart:
        yield "diff: ours less the paper's" + ", in standard errors (s.e.)" * bool(known)
    if known and len(known) < len(apart):
        yield "where no s.e. follows, none is known and the difference is in the figures' own unit"
    if any(cell.ours is not None and cell.ours.standard_error is None for cell in known):
        yield "a single run of ours is taken to spread as the paper's do"
    if any(figure.number == NOTHING for figure in figures):
        yield f"{NOTHING} not in the paper, or not measured"


def _label_columns(comparison: Comparison, lines: Sequence[Line]) -> list[Column]:
    columns = [
        Column((heading,), tuple(line.labels[position] for line in lines))
        for position, heading in enumerate(("", *comparison.marks))
    ]
    return [*columns, Column(("",), tuple(line.kind for line in lines))]


def _figure_columns(comparison: Comparison, lines: Sequence[Line]) -> list[Column]:
    columns = []
    for position, heading in enumerate(comparison.columns):
        figures = [line.figures[position] for line in lines]
        width = max((len(figure.number) for figure in figures), default=0)
        cells = tuple(f"{f.number.rjust(width)} {f.rest}".rstrip() for f in figures)
        room = max(map(len, (*cells, *heading.split())), default=1)
        columns.append(Column(tuple(textwrap.wrap(heading, room)), cells))
    return columns


def _width(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + len(GAP) * (len(columns) - 1)


def _parts(columns: Sequence[Column], room: int) -> list[range]:
    """Cut columns into as few parts as have room, of about the same number of columns each."""
    for count in range(1, max(len(columns), 1) + 1):
        ends = [len(columns) * part // count for part in range(count + 1)]
        if all(_width(columns[start:end]) <= room for start, end in pairwise(ends)):
            break
    return [range(start, end) for start, end in pairwise(ends)]


def _block(
    lines: Sequence[Line], labels: Sequence[Column], figures: Sequence[Column], part: range
) -> Table:
    """Return a table of some of the figures' columns."""
    columns = [*labels, *(figures[position] for position in part)]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for column in columns:
        # What has no room even so is folded: a number cut short would be another number.
        table.add_column(Text("\n".join(column.heading)), vertical="bottom", overflow="fold")
    for position, line in enumerate(lines):
        styles = ["bold"] * len(line.labels) + ["dim"]
        styles += ["bold" if line.figures[column].far else "" for column in part]
        texts = [column.cells[position] for column in columns]
        table.add_row(*(Text(text, style=s) for text, s in zip(texts, styles, strict=True)))
    return table


def _markdown_figure(figure: Printed) -> str:
    text = f"{figure.number} {markdown_text(figure.rest)}".rstrip()
    return f"**{text}**" if figure.far else text


def _latex_figure(figure: Printed) -> str:
    if figure.number == NOTHING:
        return r"\multicolumn{2}{c}{--}"
    if figure.far:
        return rf"$\mathbf{{{figure.number}}}$ & \textbf{{{latex_text(figure.rest)}}}"
    return f"${figure.number}$ & {latex_text(figure.rest)}".rstrip()
