"""Accuracies of a sweep: averages that can be compared, tables, and the heat map.

Averages can be compared if they cover the same test domains: a mean over fewer test domains than
the others is not shown.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from shiftproof.core.text import MINUS
from shiftproof.reporting.page.values import HeatCell, HeatMap, signed
from shiftproof.reporting.sweep_tables import estimate_cell, number_cell
from shiftproof.reporting.table import NOTHING, Cell, Column, Row, Table
from shiftproof.reporting.words import what_the_numbers_are
from shiftproof.sweeps.aggregate import (
    CellResults,
    DatasetResults,
    Estimate,
    SelectionResults,
    mean_of_columns,
)
from shiftproof.sweeps.domainbed.names import algorithm_title, dataset_title, domain_titles

FEW = "(n/m): n of m trials; the others lack runs, which are named under Provenance."
STAR = "*: over the runs there are; those that are missing are named under Provenance."
AVERAGE = "Avg"
MARKS = "Bold: the best of a column. Underlined: the second."
# The boundaries between colours, in points of accuracy.
LIMITS = (0.5, 2.0, 5.0, 10.0)


def shown_domains(dataset: DatasetResults) -> list[int]:
    """Return the positions of the test domains that have runs, or should have."""
    return [
        position
        for position in range(len(dataset.domains))
        if any(
            (cell := dataset.cells[algorithm, position]).selections or cell.missing
            for algorithm in dataset.algorithms
        )
    ]


def shown_places(results: SelectionResults) -> Iterator[tuple[DatasetResults, int]]:
    """Yield the datasets, with the position of each test domain that is shown."""
    return ((dataset, at) for dataset in results.datasets for at in shown_domains(dataset))


def covers(dataset: DatasetResults, algorithm: str) -> bool:
    """Return whether the algorithm has a number on every shown test domain."""
    positions = shown_domains(dataset)
    return bool(positions) and all(dataset.cells[algorithm, at].selections for at in positions)


def complete(dataset: DatasetResults, algorithm: str) -> bool:
    """Return whether the algorithm lacks no trial and no run on the shown test domains."""
    cells = [dataset.cells[algorithm, at] for at in shown_domains(dataset)]
    return all(len(c.selections) == len(c.trials) and not c.incomplete for c in cells)


def average(dataset: DatasetResults, algorithm: str) -> Estimate | None:
    """Return the mean over trials of the averages over all shown test domains."""
    return dataset.average(algorithm) if covers(dataset, algorithm) else None


def overall(results: SelectionResults, algorithm: str) -> float | None:
    """Return the mean over datasets in percent, or None if one has no number."""
    return mean_of_columns([average(dataset, algorithm) for dataset in results.datasets])


def best_first(results: SelectionResults) -> list[str]:
    """Return the algorithms by average, the best first; those without one come last."""
    averages = {name: overall(results, name) for name in results.algorithms}
    return sorted(
        averages, key=lambda name: -value if (value := averages[name]) is not None else math.inf
    )


def averages_table(results: SelectionResults) -> Table:
    """Return a table with one row per algorithm, one column per dataset, and their mean."""

    def cells(name: str) -> Iterator[Cell]:
        for dataset in results.datasets:
            estimate = average(dataset, name)
            cell = estimate_cell(estimate, len(dataset.trials), not complete(dataset, name))
            by_trial = dataset.trial_averages(name).items() if estimate else ()
            yield replace(cell, runs=";".join(f"{t},{100 * value:.1f}" for t, value in by_trial))
        yield number_cell(
            overall(results, name), not all(complete(d, name) for d in results.datasets)
        )

    notes = [
        what_the_numbers_are(results, results.datasets),
        "Averages are taken over test domains within a trial, then over trials.",
    ]
    titles = [*(dataset_title(d.dataset) for d in results.datasets), AVERAGE]
    return _table("Averages by dataset", results, titles, cells, notes)


def dataset_table(results: SelectionResults, dataset: DatasetResults) -> Table:
    """Return a table with one row per algorithm, one column per test domain, and their mean."""
    positions = shown_domains(dataset)
    known = domain_titles(dataset.dataset, dataset.domains)
    titles = [known[at] for at in positions] + [AVERAGE] * (len(positions) > 1)

    def cells(name: str) -> Iterator[Cell]:
        cells_there = [dataset.cells[name, at] for at in positions]
        for cell in cells_there:
            estimate = estimate_cell(cell.estimate, len(cell.trials), cell.incomplete)
            yield replace(estimate, runs=runs_of(cell))
        if len(positions) > 1:
            value = mean_of_columns([cell.estimate for cell in cells_there])
            yield number_cell(value, not complete(dataset, name))

    title = f"{dataset_title(dataset.dataset)}, by test domain"
    return _table(title, results, titles, cells, [what_the_numbers_are(results, [dataset])])


def runs_of(cell: CellResults) -> str:
    """Return the runs behind a number, in the format of `Cell.runs`."""
    return ";".join(
        f"{trial},{100 * selected.accuracy:.1f},"
        f"{'' if selected.run.standalone else selected.run.hparams_seed},{selected.step}"
        for trial, selected in sorted(cell.selections.items())
    )


def _table(
    title: str,
    results: SelectionResults,
    titles: Sequence[str],
    cells_of: Callable[[str], Iterator[Cell]],
    notes: Sequence[str],
) -> Table:
    rows = [Row.of(algorithm_title(name), *cells_of(name)) for name in best_first(results)]
    if len(results.algorithms) > 1:
        rows = [row for row in rows if any(cell.value is not None for cell in row.cells)]
    rows.sort(key=lambda row: math.inf if (last := row.cells[-1].value) is None else -last)
    columns = tuple(Column(name, 1, stays=name == AVERAGE) for name in titles)
    table = Table(title, columns, tuple(rows)).marked()
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


def level(difference: float) -> int:
    """Return the colour of a difference in points, from -4 to 4.

    >>> [level(d) for d in (0.3, 0.6, -2.0, -30.0)]
    [0, 1, -1, -4]
    """
    steps = bisect_left(LIMITS, abs(difference))
    return steps if difference > 0 else -steps


def heat_map(results: SelectionResults, baseline: str | None) -> HeatMap | None:
    """Return differences by test domain to the baseline, or to the mean of all if there is none.

    The baseline's own row shows its accuracies.  With one algorithm or one test domain, return
    None: the table says it all.
    """
    places = list(shown_places(results))
    names = best_first(results)
    if baseline in names:
        names = [baseline, *(name for name in names if name != baseline)]
    else:
        baseline = None
    if len(names) < 2 or len(places) < 2:
        return None
    rows: list[tuple[str, list[HeatCell]]] = [(algorithm_title(name), []) for name in names]
    for dataset, at in places:
        cells_there = {name: dataset.cells[name, at] for name in names}
        means = {n: round(e.mean, 1) for n, cell in cells_there.items() if (e := cell.estimate)}
        known = [cell.estimate.mean for cell in cells_there.values() if cell.estimate]
        reference = means.get(baseline) if baseline else round(sum(known) / max(len(known), 1), 1)
        for (_, cells), name in zip(rows, names, strict=True):
            if name not in means:
                cells.append(HeatCell(NOTHING, None))
            elif name == baseline or reference is None:
                cells.append(HeatCell(f"{means[name]:.1f}", None, runs_of(cells_there[name])))
            else:
                # The difference of the numbers as printed, so that the reader can check it.
                difference = round(means[name] - reference, 1)
                cells.append(
                    HeatCell(signed(difference), level(difference), runs_of(cells_there[name]))
                )
    groups: dict[str, list[str]] = {}
    for dataset, at in places:
        titles = domain_titles(dataset.dataset, dataset.domains)
        groups.setdefault(dataset_title(dataset.dataset), []).append(titles[at])
    notes = [what_the_numbers_are(results, results.datasets)]
    if baseline:
        against = algorithm_title(baseline)
        what = "accuracies" if results.measure == "accuracy" else results.measure
        notes.insert(0, f"The row of {against} has its {what} (%), the others their distance.")
    else:
        against = "the mean of all algorithms"
    title = f"Difference to {against} in points of {results.measure}"
    return HeatMap(title, list(groups.items()), rows, notes, _legend(), bool(baseline))


def _legend() -> list[tuple[int, str]]:
    ends = [f"{limit:g}" for limit in LIMITS]
    below = [(-4, f"below {MINUS}{ends[3]}")]
    below += [(-n, f"{MINUS}{ends[n]} to {MINUS}{ends[n - 1]}") for n in (3, 2, 1)]
    above = [(n, f"{ends[n - 1]} to {ends[n]}") for n in (1, 2, 3)]
    return [*below, (0, f"within {ends[0]}"), *above, (4, f"above {ends[3]}")]
