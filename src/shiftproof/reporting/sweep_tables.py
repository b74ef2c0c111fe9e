"""The results of a sweep: tables of accuracies, ranks and tests against a baseline; records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from shiftproof.core.text import counted, signed
from shiftproof.reporting.table import NOTHING, Cell, Column, Row, Table
from shiftproof.reporting.words import (
    ERROR_BAR,
    capital,
    describe_missing,
    number_ranges,
    p_value_text,
    sizes_of,
)
from shiftproof.sweeps.aggregate import DatasetResults, Estimate, MissingRun, SelectionResults
from shiftproof.sweeps.comparisons import (
    DRAWS,
    MOST_ENUMERATED,
    compare_with_baseline,
    rank_algorithms,
)
from shiftproof.sweeps.domainbed.names import algorithm_title, dataset_title, domain_titles


class AccuracyRecord(NamedTuple):
    """The mean over trials of a selector, dataset, algorithm and test domain.

    Names are ours, and numbers are in percent and not rounded for print.
    """

    dataset: str
    algorithm: str
    test_domain: str
    selector: str
    split: str
    mean: float | None
    error: float | None
    error_bar: str
    trials: int
    trial_seeds: str
    trials_expected: int
    hparams_seeds: str
    missing: str


class SelectedRecord(NamedTuple):
    """The run and step behind a number: one record per trial and test domain.

    ``hparams`` is JSON; ``accuracy`` is measured on the test domain's in part, in percent.
    """

    dataset: str
    algorithm: str
    test_domain: str
    selector: str
    trial_seed: int
    hparams_seed: int
    step: int
    accuracy: float
    hparams: str
    run: str


def accuracy_records(all_results: Sequence[SelectionResults]) -> Iterator[AccuracyRecord]:
    """Yield one record per selector, dataset, algorithm and test domain."""
    for results in all_results:
        for dataset in results.datasets:
            for algorithm in results.algorithms:
                for domain, cell in zip(dataset.domains, dataset.row(algorithm), strict=True):
                    estimate = cell.estimate
                    yield AccuracyRecord(
                        *(dataset.dataset, algorithm, domain, results.selector.name, "test-in"),
                        estimate.mean if estimate else None,
                        estimate.error if estimate and estimate.trials > 1 else None,
                        ERROR_BAR,
                        len(cell.selections),
                        number_ranges(cell.selections),
                        len(cell.trials),
                        number_ranges(dataset.draws),
                        "; ".join(describe_missing(cell.missing)),
                    )


def selected_records(all_results: Sequence[SelectionResults]) -> Iterator[SelectedRecord]:
    """Yield one record per selector, dataset, algorithm, test domain and trial."""
    for results in all_results:
        for dataset in results.datasets:
            for (algorithm, position), cell in dataset.cells.items():
                for trial, selected in sorted(cell.selections.items()):
                    hparams = selected.run.hparams
                    yield SelectedRecord(
                        *(dataset.dataset, algorithm, dataset.domains[position]),
                        results.selector.name,
                        *(trial, selected.run.hparams_seed, selected.step),
                        100 * selected.accuracy,
                        json.dumps(hparams) if hparams else "",
                        str(selected.run.folder or ""),
                    )


# The widths of DomainBed's columns.
DATASET_WIDTH, AVERAGES_WIDTH = 20, 25


def sweep_tables(
    results: SelectionResults, baseline: str | None = "erm", seed: int = 0
) -> Iterator[Table]:
    """Yield one table per dataset, then averages, ranks and the comparison with the baseline.

    ``seed`` seeds the random signs of the comparison.
    """
    baseline = baseline if baseline in results.algorithms else None
    title = baseline and algorithm_title(baseline)
    for dataset in results.datasets:
        yield _dataset_table(results, dataset).marked(title)
    if not results.has_numbers:
        return
    yield _averages_table(results).marked(title)
    if len(results.algorithms) > 1:
        yield _ranking_table(results).marked(title)
        if baseline is not None:
            yield _comparison_table(results, baseline, seed)


def estimate_cell(estimate: Estimate | None, trials: int, incomplete: bool) -> Cell:
    """Return a cell with a mean; its sign shows whether trials or runs are missing.

    A single trial has no error bar, where DomainBed's tables have 0.0.
    """
    if estimate is None:
        return Cell()
    sign = f"({estimate.trials}/{trials})" if estimate.trials < trials else "*" * incomplete
    error = f"{estimate.error:.1f}" if estimate.trials > 1 else ""
    return Cell(f"{estimate.mean:.1f}", error, sign)


def number_cell(value: float | None, incomplete: bool) -> Cell:
    """Return a cell with a mean of means, which has no error."""
    return Cell() if value is None else Cell(f"{value:.1f}", sign="*" * incomplete)


def _dataset_table(results: SelectionResults, dataset: DatasetResults) -> Table:
    rows = []
    # A dataset without any number has no rows; the notes say why.
    for algorithm in results.algorithms * dataset.has_numbers:
        cells = [
            estimate_cell(cell.estimate, len(cell.trials), cell.incomplete)
            for cell in dataset.row(algorithm)
        ]
        average = number_cell(dataset.row_average(algorithm), not dataset.complete(algorithm))
        rows.append(Row.of(algorithm_title(algorithm), *cells, average))
    missing = [run for cell in dataset.cells.values() for run in cell.missing]
    titled = [run._replace(test_domains=_titles(run, dataset)) for run in missing]
    return Table(
        f"Dataset: {dataset_title(dataset.dataset)},"
        f" model selection method: {results.selector.title}",
        _columns((*domain_titles(dataset.dataset, dataset.domains), "Avg"), 1),
        tuple(rows),
        _caption(results, [dataset]),
        (
            *(() if rows else ("no number: no run can be selected from",)),
            *_signs_explained(rows, "below"),
            *describe_missing(titled),
        ),
        width=DATASET_WIDTH,
    )


def _averages_table(results: SelectionResults) -> Table:
    rows = []
    for algorithm in results.algorithms:
        cells = [
            estimate_cell(d.average(algorithm), len(d.trials), not d.complete(algorithm))
            for d in results.datasets
        ]
        incomplete = not all(d.complete(algorithm) for d in results.datasets)
        average = number_cell(results.average(algorithm), incomplete)
        rows.append(Row.of(algorithm_title(algorithm), *cells, average))
    return Table(
        f"Averages, model selection method: {results.selector.title}",
        _columns((*(dataset_title(d.dataset) for d in results.datasets), "Avg"), 1),
        tuple(rows),
        _caption(results, results.datasets) + " Over test domains within a trial, then trials.",
        _signs_explained(rows, "above"),
        width=AVERAGES_WIDTH,
    )


def _ranking_table(results: SelectionResults) -> Table:
    accuracies = {
        algorithm: {
            # Rounded as printed, like the paper's, so that averages that look equal tie.
            d.dataset: round(average.mean, 1)
            for d in results.datasets
            if d.covers(algorithm) and (average := d.average(algorithm))
        }
        for algorithm in results.algorithms
    }
    ranks = rank_algorithms(accuracies)
    lacking = any(algorithm not in ranks for algorithm in results.algorithms)
    rows = [
        Row.of(algorithm_title(name), f"{rank.mean:.1f}", f"{rank.median:g}", f"{rank.worst}")
        if (rank := ranks.get(name))
        else Row.of(algorithm_title(name), *(NOTHING,) * 3)
        for name in results.algorithms
    ]
    return Table(
        f"Ranking, model selection method: {results.selector.title}",
        _columns(("Mean", "Median", "Worst"), -1),
        tuple(rows),
        f"Ranks by the averages as printed above, over {counted(len(results.datasets), 'dataset')};"
        f" equal ones share the smallest rank. {_caption(results, results.datasets)}",
        (f"{NOTHING} lacks a test domain of a dataset and is not ranked there",) * lacking,
        width=AVERAGES_WIDTH,
    )


def _comparison_table(results: SelectionResults, baseline: str, seed: int) -> Table:
    accuracies = {name: results.accuracies(name) for name in results.algorithms}
    compared = compare_with_baseline(accuracies, baseline, seed)
    tests = {test.algorithm: test for test in compared}
    rows = []
    for name in results.algorithms:
        cells = [NOTHING] * 4
        if test := tests.get(name):
            cells = [signed(100 * test.difference), f"{test.pairs}"]
            cells[1:1] = [p_value_text(p, 4) for p in (test.p_value, test.corrected)]
        if name != baseline:
            rows.append(Row.of(algorithm_title(name), *cells))
    title = algorithm_title(baseline)
    return Table(
        f"Against {title}, model selection method: {results.selector.title}",
        _columns(("Difference", "p", "p (Holm)", "Pairs"), 0),
        tuple(rows),
        f"Mean difference to {title} in points, paired by dataset, test domain and trial;"
        f" two-sided sign-flip test, exact up to {MOST_ENUMERATED} pairs, else {DRAWS:,} random"
        f" assignments (seed {seed}); Holm's correction over {counted(len(compared), 'algorithm')}."
        " Pairs of one dataset share training data: read a small p with care."
        f" {_caption(results, results.datasets)}",
        width=AVERAGES_WIDTH,
    )


def _columns(titles: Sequence[str], better: int) -> tuple[Column, ...]:
    return tuple(Column(title, better) for title in titles)


def _caption(results: SelectionResults, datasets: Sequence[DatasetResults]) -> str:
    """Describe the numbers: split, selector, seeds, trials, draws and error bar."""
    single = all(len(dataset.trials) == 1 for dataset in datasets)
    unit = "run" if all(dataset.standalone for dataset in datasets) else "trial"
    bars = f"one {unit} each, hence no error bars" if single else f"+/- {ERROR_BAR}"
    return (
        f"{capital(results.measure)} (%) on the test domain's in part (test-in), selector"
        f" {results.selector.name}; {sizes_of(datasets)}; {bars}."
    )


def _signs_explained(rows: Sequence[Row], where: str) -> tuple[str, ...]:
    signs = {cell.sign for row in rows for cell in row.cells}
    few = f"(n/m) n of m trials; the others lack runs that are named {where}"
    star = f"* over the runs there are; those that are missing are named {where}"
    return (few,) * any(sign.startswith("(") for sign in signs) + (star,) * ("*" in signs)


def _titles(run: MissingRun, dataset: DatasetResults) -> tuple[str, ...]:
    titles = domain_titles(dataset.dataset, dataset.domains)
    return tuple(dict(zip(dataset.domains, titles, strict=True))[n] for n in run.test_domains)
