"""Tables in every format: as DomainBed prints them, aligned text, Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import re
import textwrap
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from shiftproof.core.text import printable
from shiftproof.reporting.table import NOTHING, Cell, Table

GAP = "  "
# The least and greatest width of the notes below an aligned table.
NARROWEST_NOTE, WIDEST_NOTE = 60, 100
PACKAGES = r"% \usepackage{booktabs,xcolor,adjustbox}  % what these tables need"


# --- text -----------------------------------------------------------------------------------------
def as_text(table: Table) -> str:
    """Return the table as DomainBed prints it: all columns equally wide."""
    lines = [_titles(table), *([*row.labels, *map(_plain, row.cells)] for row in table.rows)]
    width = max(table.width, *(len(text) for line in lines for text in line))
    body = [GAP.join(text.ljust(width) for text in line) + " " for line in lines]
    notes = [f"  {note}" for note in (table.caption, *table.notes) if note]
    return "\n".join([f"-------- {table.title}", *body, *notes]) + "\n"


def as_aligned_text(table: Table, width: int | None = None) -> str:
    """Return the table with aligned numbers, its title above and its notes below.

    Columns that do not fit into ``width`` go below the others, with the labels repeated.
    """
    labels = [
        TextColumn((head,), tuple(row.labels[at] for row in table.rows))
        for at, head in enumerate(table.heads)
    ]
    parts = _parts(figure_columns(table), width and width - _width_of(labels) - len(GAP))
    blocks = ["\n".join(_aligned([*labels, *part])) for part in parts]
    room = width or max(_width_of([*labels, *part]) for part in parts)
    room = min(max(room, NARROWEST_NOTE), WIDEST_NOTE)
    notes = [part for note in table.notes for part in textwrap.wrap(note, room)]
    return "\n".join([table.title, "", "\n\n".join(blocks), "", *notes]) + "\n"


class TextColumn(NamedTuple):
    """A fixed-width column: its wrapped heading, and the cells below it."""

    heading: tuple[str, ...]
    cells: tuple[str, ...]

    @property
    def width(self) -> int:
        """The width of its widest line."""
        return max(map(len, (*self.heading, *self.cells)), default=0)


def figure_columns(table: Table) -> list[TextColumn]:
    """Return the columns of aligned numbers, with headings wrapped to their width."""
    columns = []
    for at, column in enumerate(table.columns):
        cells = [row.cells[at] for row in table.rows]
        width = max((len(cell.text) for cell in cells), default=0)
        texts = tuple(f"{c.text.rjust(width)} {_after_number(c)}".rstrip() for c in cells)
        room = max(map(len, (*texts, *column.title.split())), default=1)
        columns.append(TextColumn(tuple(textwrap.wrap(column.title, room)), texts))
    return columns


def _parts(columns: Sequence[TextColumn], room: int | None) -> list[Sequence[TextColumn]]:
    """Split columns into as few parts as fit, with about equally many columns each."""
    parts: list[Sequence[TextColumn]] = [columns]
    for count in range(2, len(columns) + 1):
        if room is None or all(_width_of(part) <= room for part in parts):
            break
        ends = [len(columns) * part // count for part in range(count + 1)]
        parts = [columns[start:end] for start, end in pairwise(ends)]
    return parts


def _aligned(columns: Sequence[TextColumn]) -> list[str]:
    height = max(len(column.heading) for column in columns)
    padded = []
    for column in columns:
        texts = [""] * (height - len(column.heading)) + [*column.heading, *column.cells]
        padded.append([text.ljust(column.width) for text in texts])
    lines = [GAP.join(row).rstrip() for row in zip(*padded, strict=True)]
    lines.insert(height, "-" * _width_of(columns))
    return lines


def _width_of(columns: Sequence[TextColumn]) -> int:
    return sum(column.width for column in columns) + len(GAP) * (len(columns) - 1)


def _titles(table: Table) -> list[str]:
    return [*table.heads, *(column.title for column in table.columns)]


def _after_number(cell: Cell) -> str:
    """Return what follows the number: its error and its sign."""
    return " ".join(filter(None, (cell.error and f"± {cell.error}", cell.sign)))


def _plain(cell: Cell) -> str:
    error = f" +/- {cell.error}" if cell.error else ""
    return f"{cell.text}{error} {cell.sign}".rstrip()


def tables_as_text(tables: Sequence[Table], records: int, notes: Sequence[str] = ()) -> str:
    """Return the tables as DomainBed prints them, with captions and notes below each.

    ``notes`` come from `run_notes` and concern the runs behind all tables.
    """
    below = "".join(f"  {note}\n" for note in notes)
    return "\n".join([f"Total records: {records}\n{below}", *map(as_text, tables)])


# --- Markdown -------------------------------------------------------------------------------------
def as_markdown(table: Table) -> str:
    """Return the table under a heading, with its caption and notes below.

    The best value of a column and values far from the paper are bold.
    """
    sides = ["---"] * len(table.heads) + ["---:"] * len(table.columns)
    rows = [[*map(markdown_text, row.labels), *map(_in_markdown, row.cells)] for row in table.rows]
    lines = [f"### {markdown_text(table.title)}", ""]
    lines += [f"| {' | '.join(r)} |" for r in ([*map(markdown_text, _titles(table))], sides, *rows)]
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


def _in_markdown(cell: Cell) -> str:
    text = f"**{cell.text}**" if cell.mark == "best" else cell.text
    whole = f"{text} {markdown_text(_after_number(cell))}".rstrip()
    return f"**{whole}**" if cell.mark == "far" else whole


def tables_as_markdown(tables: Sequence[Table], records: int, notes: Sequence[str] = ()) -> str:
    """Return the tables in Markdown; the best value of a column is bold."""
    below = [f"{markdown_text(note)}\n" for note in notes]
    return "\n".join([*map(as_markdown, tables), f"Total records: {records}\n", *below])


# --- LaTeX ----------------------------------------------------------------------------------------
_SIGNS = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "√": r"$\surd$", NOTHING: "--", "<": r"\textless{}", ">": r"\textgreater{}",
    "±": r"$\pm$", "−": "$-$", "×": r"$\times$", "|": r"\textbar{}", "λ": r"$\lambda$",
    # At the start of a row, LaTeX would read these as options of the preceding line break.
    "[": "{[}", "*": "{*}",
    **{sign: f"$_{{{digit}}}$" for digit, sign in enumerate("₀₁₂₃₄₅₆₇₈₉")},
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}  # fmt: skip
_MARKS = {"best": r"\textbf", "second": r"\underline", "worse": r"\textcolor{gray}"}


def as_latex(table: Table) -> str:
    """Return the table marked as in the paper, with its caption and notes in the LaTeX caption.

    The best value is bold, the second best underlined, and values worse than the baseline are gray;
    equal values share a mark.
    """
    heading = [*table.heads, *(rf"\textbf{{{latex_text(c.title)}}}" for c in table.columns)]
    rows = [[*map(latex_text, row.labels), *map(_in_latex, row.cells)] for row in table.rows]
    notes = " ".join(latex_text(note) for note in (table.caption, *table.notes))
    lines = [
        *_opened(rf"{latex_text(table.title)}. {notes}"),
        r"\adjustbox{max width=\textwidth}{%",
        *_tabular("l" * len(table.heads) + "c" * len(table.columns), heading, [*map(_line, rows)]),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def as_aligned_latex(table: Table) -> str:
    """Return the table with aligned numbers and notes below; cells far from the paper are bold."""
    sides = "l" + "c" * (len(table.heads) - 2) + "l" + r"r@{\,}l" * len(table.columns)
    heading = [*map(latex_text, table.heads)]
    for column in figure_columns(table):
        folded = r" \\ ".join(map(latex_text, column.heading))
        folded = rf"\shortstack{{{folded}}}" if len(column.heading) > 1 else folded
        heading.append(rf"\multicolumn{{2}}{{c}}{{{folded}}}")
    body = []
    for at, row in enumerate(table.rows):
        if at and row.label:
            body.append(r"\addlinespace")
        body.append(_line([*map(latex_text, row.labels), *map(_aligned_cell, row.cells)]))
    lines = [
        r"% \usepackage{booktabs,adjustbox}  % what this table needs",
        *_opened(latex_text(table.title)),
        rf"\label{{tab:{table.name}}}",
        r"\adjustbox{max width=\textwidth, max totalheight=0.8\textheight}{%",
        *_tabular(sides, heading, body),
        r"\par\smallskip",
        r"\begin{minipage}{\textwidth}\footnotesize\raggedright",
        *(latex_text(note) + r"\par" for note in table.notes),
        r"\end{minipage}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def latex_text(text: str) -> str:
    """Escape text for LaTeX.

    >>> latex_text("90% +/- 1")
    '90\\\\% $\\\\pm$ 1'
    """
    return "".join(_SIGNS.get(sign, sign) for sign in text).replace("+/-", r"$\pm$")


def tables_as_latex(tables: Sequence[Table], records: int, notes: Sequence[str] = ()) -> str:
    """Return the tables in LaTeX, marked as in the paper; the notes are comments."""
    comments = "".join(f"% {' '.join(note.split())}\n" for note in notes)
    head = f"{PACKAGES}\n", f"% Total records: {records}\n{comments}"
    return "\n".join([*head, *map(as_latex, tables)])


def _opened(caption: str) -> list[str]:
    return [r"\begin{table}", r"\centering", rf"\caption{{{caption}}}"]


def _tabular(sides: str, heading: Sequence[str], body: Sequence[str]) -> list[str]:
    return [
        rf"\begin{{tabular}}{{{sides}}}",
        *(r"\toprule", _line(heading), r"\midrule"),
        *body,
        *(r"\bottomrule", r"\end{tabular}}"),
    ]


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _in_latex(cell: Cell) -> str:
    number = "--" if cell.text == NOTHING else latex_text(cell.text).replace("-", "$-$")
    text = f"{_MARKS[cell.mark]}{{{number}}}" if cell.mark else number
    error = rf" \scriptsize{{$\pm$ {cell.error}}}" if cell.error else ""
    return f"{text}{error} {cell.sign}".rstrip()


def _aligned_cell(cell: Cell) -> str:
    rest = latex_text(_after_number(cell))
    if cell.text == NOTHING:
        return r"\multicolumn{2}{c}{--}"
    if cell.mark == "far":
        return rf"$\mathbf{{{cell.text}}}$ & \textbf{{{rest}}}"
    return f"${cell.text}$ & {rest}".rstrip()


# --- CSV ------------------------------------------------------------------------------------------
# A spreadsheet evaluates a cell that begins like this, unless it is a number.
_FORMULA = re.compile(r"[=@]|[+\-](?=.)")
_NUMBER = re.compile(r"[+\-]?(\d+\.?\d*|\.\d+)([eE][+\-]?\d+)?%?|[+\-]?(inf|nan)", re.IGNORECASE)


def as_csv(lines: Iterable[Iterable[object]]) -> str:
    """Return lines of values as CSV; None is empty, and fractions have six decimals."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([map(_printed, line) for line in lines])
    return out.getvalue()


def csv_text(text: str) -> str:
    """Escape text that a spreadsheet would evaluate as a formula.

    >>> csv_text("=HYPERLINK(1)"), csv_text("-1.5"), csv_text("a=b"), csv_text("+")
    ("'=HYPERLINK(1)", '-1.5', 'a=b', '+')
    """
    text = printable(text)
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def _printed(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6f}" if isinstance(value, float) else csv_text(str(value))
