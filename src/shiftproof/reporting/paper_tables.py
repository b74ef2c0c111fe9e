"""A table of the paper compared with our results, as a `Table`.

A row of the paper becomes up to three rows: the paper's figures, ours, and their difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from shiftproof.core.files import write_atomically
from shiftproof.core.text import signed
from shiftproof.paper.comparison import Cell as Figure, Comparison
from shiftproof.paper.studies import Findings
from shiftproof.reporting.formats import as_aligned_latex, as_aligned_text, as_markdown
from shiftproof.reporting.pictures import write_dynamics
from shiftproof.reporting.table import NOTHING, Cell, Column, Row, Table

# Figures further from the paper than this, in standard errors, are marked.
FAR = 2.0


def comparison_table(comparison: Comparison) -> Table:
    """Return the comparison as a table; figures far from the paper are marked."""
    rows = tuple(_rows(comparison))
    return Table(
        comparison.title,
        tuple(map(Column, comparison.columns)),
        rows,
        notes=tuple(_notes(comparison, rows)),
        heads=("", *comparison.marks, ""),
        name=comparison.name,
    )


def write_findings(findings: Findings, name: str, folder: Path) -> list[Path]:
    """Write tables as text, Markdown and LaTeX, and the curves of study ``name`` as a figure."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    formats = {".txt": as_aligned_text, ".md": as_markdown, ".tex": as_aligned_latex}
    for comparison in findings.comparisons:
        table = comparison_table(comparison)
        for suffix, render in formats.items():
            path = folder / f"{table.name}{suffix}"
            write_atomically(path, render(table).encode())
            written.append(path)
    if (curves := findings.curves) is not None:
        written += write_dynamics(
            curves.penalties, curves.steps, curves.switch, folder / name, curves.accuracies
        )
    return written


def _rows(comparison: Comparison) -> Iterator[Row]:
    places = _decimal_places(comparison)
    for row in comparison.rows:
        figures = list(zip(row.cells, places, strict=True))
        kinds = {
            "paper": tuple(_paper(figure, digits) for figure, digits in figures),
            "ours": tuple(_ours(figure, digits, comparison) for figure, digits in figures),
        }
        if comparison.comparable and any(figure.difference is not None for figure in row.cells):
            kinds["diff"] = tuple(_difference(figure, digits) for figure, digits in figures)
        labels = (row.name, *row.marks)
        for kind, cells in kinds.items():
            yield Row((*labels, kind), cells)
            labels = ("",) * len(labels)


def _decimal_places(comparison: Comparison) -> list[int]:
    """Return the decimals of each column: as many as the paper prints there, but at least one.

    A column without figures in the paper gets the most decimals of any column.
    """
    printed = [
        max((_decimals(row.cells[at]) for row in comparison.rows), default=0)
        for at in range(len(comparison.columns))
    ]
    return [max(digits or max(printed), 1) for digits in printed]


def _decimals(figure: Figure) -> int:
    numbers = () if figure.paper is None else (figure.paper.value, figure.paper.error or 0.0)
    return max((len(f"{n:.6f}".rstrip("0").partition(".")[2]) for n in numbers), default=0)


def _paper(figure: Figure, digits: int) -> Cell:
    if figure.paper is None:
        return Cell()
    error = figure.paper.error
    return Cell(f"{figure.paper.value:.{digits}f}", "" if error is None else f"{error:.{digits}f}")


def _ours(figure: Figure, digits: int, comparison: Comparison) -> Cell:
    if figure.ours is None:
        return Cell()
    spread = {
        "standard deviation": figure.ours.deviation,
        "standard error": figure.ours.standard_error,
    }[comparison.error]
    return Cell(
        f"{figure.ours.mean:.{digits}f}",
        "" if spread is None else f"{spread:.{digits}f}",
        f"({len(figure.ours.values)})" * comparison.counts_runs,
    )


def _difference(figure: Figure, digits: int) -> Cell:
    """Return the difference in standard errors, or in the figures' unit if no error is known."""
    if figure.difference is None:
        return Cell()
    errors = figure.in_standard_errors
    if errors is None:
        return Cell(signed(figure.difference, digits))
    far = abs(errors) > FAR
    return Cell(signed(errors, 1), sign="s.e." + "*" * far, mark="far" * far)


def _notes(comparison: Comparison, rows: Sequence[Row]) -> Iterator[str]:
    """Yield the meaning of the signs, and the notes of the comparison."""
    if any(cell.mark == "far" for row in rows for cell in row.cells):
        yield far_note(comparison)
    if signs := "; ".join(_signs_explained(comparison, rows)):
        yield f"{signs[0].upper()}{signs[1:]}."
    yield from comparison.notes


def far_note(comparison: Comparison) -> str:
    """Explain the mark of figures far from the paper, and how often it is due to chance."""
    chances = [cell.beyond_by_chance(FAR) for row in comparison.rows for cell in row.cells]
    shares = [100 * share for share in chances if share is not None]
    low, high = f"{min(shares):.0f}", f"{max(shares):.0f}"
    share = low if low == high else f"{low} to {high}"
    return (
        f"* more than two standard errors from the paper, where chance alone puts {share}% of"
        " figures"
    )


def _signs_explained(comparison: Comparison, rows: Sequence[Row]) -> Iterator[str]:
    figures = [figure for row in comparison.rows for figure in row.cells]
    apart = [f for f in figures if comparison.comparable and f.difference is not None]
    known = [figure for figure in apart if figure.in_standard_errors is not None]
    if comparison.unit:
        yield f"figures in {comparison.unit}"
    spread = {row.labels[-1] for row in rows if any(cell.error for cell in row.cells)}
    if spread:
        whose = {"paper": "of the paper's runs", "ours": "of our runs"}
        yield f"± {comparison.error} " + " and ".join(w for k, w in whose.items() if k in spread)
    if comparison.counts_runs and any(figure.ours is not None for figure in figures):
        yield "(n) number of our repetitions"
    if apart:
        yield "diff: ours less the paper's" + ", in standard errors (s.e.)" * bool(known)
    if known and len(known) < len(apart):
        yield "where no s.e. follows, none is known and the difference is in the figures' own unit"
    if any(figure.ours is not None and figure.ours.standard_error is None for figure in known):
        yield "a single run of ours is taken to spread as the paper's do"
    if any(cell.text == NOTHING for row in rows for cell in row.cells):
        yield f"{NOTHING} not in the paper, or not measured"
