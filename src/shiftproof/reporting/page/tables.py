"""Tables of accuracies: by test domain for each dataset, and averages by dataset."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from shiftproof.reporting.page.comparable import (
    average,
    best_first,
    complete,
    overall,
    shown_domains,
)
from shiftproof.reporting.sweep_tables import estimate_cell, number_cell
from shiftproof.reporting.table import Cell, Column, Row, Table
from shiftproof.reporting.words import what_the_numbers_are
from shiftproof.sweeps.aggregate import (
    CellResults,
    DatasetResults,
    SelectionResults,
    mean_of_columns,
)
from shiftproof.sweeps.domainbed.names import algorithm_title, dataset_title, domain_titles

FEW = "(n/m): n of m trials; the others lack runs, which are named under Provenance."
STAR = "*: over the runs there are; those that are missing are named under Provenance."
AVERAGE = "Avg"
MARKS = "Bold: the best of a column. Underlined: the second."
# The title of each column, and a function from an algorithm to its cell.
Columns = list[tuple[str, Callable[[str], Cell]]]


def averages_table(results: SelectionResults) -> Table:
    """Return a table with one row per algorithm, one column per dataset, and their mean."""

    def mean(name: str) -> Cell:
        incomplete = not all(complete(d, name) for d in results.datasets)
        return number_cell(overall(results, name), incomplete)

    columns: Columns = [(dataset_title(d.dataset), _averages(d)) for d in results.datasets]
    notes = [
        what_the_numbers_are(results, results.datasets),
        "Averages are taken over test domains within a trial, then over trials.",
    ]
    return _table("Averages by dataset", results, [*columns, (AVERAGE, mean)], notes)


def dataset_table(results: SelectionResults, dataset: DatasetResults) -> Table:
    """Return a table with one row per algorithm, one column per test domain, and their mean."""
    shown = shown_domains(dataset)
    titles = domain_titles(dataset.dataset, dataset.domains)

    def mean(name: str) -> Cell:
        value = mean_of_columns([dataset.cells[name, at].estimate for at in shown])
        return number_cell(value, not complete(dataset, name))

    columns: Columns = [(titles[at], _accuracies(dataset, at)) for at in shown]
    if len(shown) > 1:
        columns.append((AVERAGE, mean))
    title = f"{dataset_title(dataset.dataset)}, by test domain"
    return _table(title, results, columns, [what_the_numbers_are(results, [dataset])])


def runs_of(found: CellResults) -> str:
    """Return the runs behind a number, in the format of `Cell.runs`."""
    return ";".join(
        f"{trial},{100 * selected.accuracy:.1f},"
        f"{'' if selected.run.standalone else selected.run.hparams_seed},{selected.step}"
        for trial, selected in sorted(found.selections.items())
    )


def _table(title: str, results: SelectionResults, columns: Columns, notes: Sequence[str]) -> Table:
    rows = [
        Row.of(algorithm_title(name), *(cell(name) for _, cell in columns))
        for name in best_first(results)
    ]
    if len(results.algorithms) > 1:
        rows = [row for row in rows if any(cell.value is not None for cell in row.cells)]
    rows.sort(key=lambda row: math.inf if (last := row.cells[-1].value) is None else -last)
    table = Table(
        title, tuple(Column(name, 1, stays=name == AVERAGE) for name, _ in columns), tuple(rows)
    ).marked()
    cells = [cell for row in table.rows for cell in row.cells]
    explained = {
        MARKS: any(cell.mark for cell in cells),
        FEW: any(cell.sign.startswith("(") for cell in cells),
        STAR: any(cell.sign == "*" for cell in cells),
    }
    return replace(
        table,
        notes=(*notes, *(note for note, needed in explained.items() if needed)),
        by=len(columns) - 1 if len(rows) > 1 else None,
    )


def _accuracies(dataset: DatasetResults, at: int) -> Callable[[str], Cell]:
    """Return the column of a test domain."""

    def cell(name: str) -> Cell:
        found = dataset.cells[name, at]
        several = len(found.selections) > 1
        shown = estimate_cell(found.estimate, len(found.trials), found.incomplete, several)
        return replace(shown, runs=runs_of(found))

    return cell


def _averages(dataset: DatasetResults) -> Callable[[str], Cell]:
    """Return the column of a dataset's averages."""

    def cell(name: str) -> Cell:
        found = average(dataset, name)
        several = found is not None and found.trials > 1
        shown = estimate_cell(found, len(dataset.trials), not complete(dataset, name), several)
        if found is None:
            return shown
        by_trial = dataset.trial_averages(name).items()
        return replace(shown, runs=";".join(f"{t},{100 * value:.1f}" for t, value in by_trial))

    return cell
