"""Tables in LaTeX: marked as in the paper, or with numbers aligned."""

from __future__ import annotations

from collections.abc import Sequence

from shiftproof.reporting.renderers.text import after_number, figure_columns
from shiftproof.reporting.table import NOTHING, Cell, Table

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
    rows = [[*map(latex_text, row.labels), *map(_cell, row.cells)] for row in table.rows]
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


def _opened(caption: str) -> list[str]:
    return [r"\begin{table}", r"\centering", rf"\caption{{{caption}}}"]


def _tabular(sides: str, heading: Sequence[str], body: Sequence[str]) -> list[str]:
    return [
        rf"\begin{{tabular}}{{{sides}}}",
        r"\toprule",
        _line(heading),
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}}",
    ]


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _cell(cell: Cell) -> str:
    number = "--" if cell.text == NOTHING else latex_text(cell.text).replace("-", "$-$")
    text = f"{_MARKS[cell.mark]}{{{number}}}" if cell.mark else number
    error = rf" \scriptsize{{$\pm$ {cell.error}}}" if cell.error else ""
    return f"{text}{error} {cell.sign}".rstrip()


def _aligned_cell(cell: Cell) -> str:
    rest = latex_text(after_number(cell))
    if cell.text == NOTHING:
        return r"\multicolumn{2}{c}{--}"
    if cell.mark == "far":
        return rf"$\mathbf{{{cell.text}}}$ & \textbf{{{rest}}}"
    return f"${cell.text}$ & {rest}".rstrip()
