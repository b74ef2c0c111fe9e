"""Tables of accuracies: of each dataset by test domain, and of the averages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shiftproof.report.page.comparable import average, best_first, complete, overall, shown_domains
from shiftproof.report.page.values import Cell, Column, Row, Table
from shiftproof.report.page.words import what_the_numbers_are
from shiftproof.report.tables import NOTHING, marks
from shiftproof.sweeps.aggregate import Cell as Found
from shiftproof.sweeps.aggregate import DatasetResults, Estimate, SelectionResults
from shiftproof.sweeps.domainbed.logs import algorithm_title, dataset_title, domain_titles

FEW = "(n/m): n of m trials; the others lack runs, which are named under Provenance."
STAR = "*: over the runs there are; those that are not are named under Provenance."
MARKS = "Bold: the best of a column. Underlined: the second."


def averages_table(results: SelectionResults) -> Table:
    """Return an algorithm a row, a dataset a column, and their mean."""
    columns: list[tuple[str, Callable[[str], Cell]]] = [
        (dataset_title(d.dataset), lambda name, d=d: _average(d, name))  # type: ignore[misc]
        for d in results.datasets
    ]

    def mean(name: str) -> Cell:
        incomplete = not all(complete(d, name) for d in results.datasets)
        return _number(overall(results, name), incomplete)

    notes = [
        what_the_numbers_are(results, results.datasets),
        "Averages are taken over test domains within a trial, then over trials.",
    ]
    return _table("Averages by dataset", results, [*columns, ("Avg", mean)], notes)


def dataset_table(results: SelectionResults, dataset: DatasetResults) -> Table:
    """Return an algorithm a row, a test domain a column, and their mean."""
    shown = shown_domains(dataset)
    titles = domain_titles(dataset.dataset, dataset.domains)
    columns: list[tuple[str, Callable[[str], Cell]]] = [
        (titles[at], lambda name, at=at: _domain(dataset.cells[name, at]))  # type: ignore[misc]
        for at in shown
    ]

    def mean(name: str) -> Cell:
        cells = [dataset.cells[name, at] for at in shown]
        found = [e.mean for cell in cells if (e := cell.estimate)]
        whole = len(found) == len(cells)
        return _number(sum(found) / len(found) if whole else None, not complete(dataset, name))

    if len(shown) > 1:
        columns.append(("Avg", mean))
    title = f"{dataset_title(dataset.dataset)}, by test domain"
    return _table(title, results, columns, [what_the_numbers_are(results, [dataset])])


def runs_of(found: Found) -> str:
    """Return where a cell's number comes from, as `values.Cell` has it."""
    return ";".join(
        f"{trial},{100 * chosen.accuracy:.1f},"
        f"{'' if chosen.run.alone else chosen.run.hparams_seed},{chosen.step}"
        for trial, chosen in sorted(found.selections.items())
    )


def _table(
    title: str,
    results: SelectionResults,
    columns: Sequence[tuple[str, Callable[[str], Cell]]],
    notes: Sequence[str],
) -> Table:
    names = [
        name
        for name in best_first(results)
        if any(cell(name).text != NOTHING for _, cell in columns) or len(results.algorithms) < 2
    ]
    filled = [_marked([cell(name) for name in names]) for _, cell in columns]
    rows = [
        Row(algorithm_title(name), cells)
        for name, cells in zip(names, zip(*filled, strict=True), strict=True)
    ]
    order = _by_last_column(rows)
    signs = {cell.sign for row in rows for cell in row.cells}
    explained = [FEW] * any(s.startswith("(") for s in signs) + [STAR] * ("*" in signs)
    marked = [MARKS] * any(cell.mark for row in rows for cell in row.cells)
    last = len(columns) - 1
    return Table(
        title,
        [Column(name) for name, _ in columns],
        order,
        [*notes, *marked, *explained],
        by=last if len(rows) > 1 else None,
    )


def _by_last_column(rows: Sequence[Row]) -> list[Row]:
    def key(row: Row) -> float:
        text = row.cells[-1].text
        return 1.0 if text == NOTHING else -float(text)

    return sorted(rows, key=key)


def _marked(cells: Sequence[Cell]) -> list[Cell]:
    values = [None if cell.text == NOTHING else float(cell.text) for cell in cells]
    signs = marks(values, better=1, baseline=None)
    return [
        Cell(c.text, c.error, c.sign, mark, c.runs) for c, mark in zip(cells, signs, strict=True)
    ]


def _domain(found: Found) -> Cell:
    cell = _estimate(found.estimate, len(found.trials), found.incomplete)
    return Cell(cell.text, cell.error, cell.sign, runs=runs_of(found))


def _average(dataset: DatasetResults, algorithm: str) -> Cell:
    incomplete = not complete(dataset, algorithm)
    cell = _estimate(average(dataset, algorithm), len(dataset.trials), incomplete)
    if cell.text == NOTHING:
        return cell
    by_trial = dataset.trial_averages(algorithm)
    runs = ";".join(f"{trial},{100 * value:.1f}" for trial, value in by_trial.items())
    return Cell(cell.text, cell.error, cell.sign, runs=runs)


def _estimate(found: Estimate | None, trials: int, incomplete: bool) -> Cell:
    if found is None:
        return Cell(NOTHING)
    sign = f"({found.trials}/{trials})" if found.trials < trials else "*" * incomplete
    error = f"{found.error:.1f}" if found.trials > 1 else ""
    return Cell(f"{found.mean:.1f}", error, sign)


def _number(value: float | None, incomplete: bool) -> Cell:
    return Cell(NOTHING) if value is None else Cell(f"{value:.1f}", sign="*" * incomplete)
