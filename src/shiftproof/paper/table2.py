"""Table 2: every algorithm on every dataset of DomainBed, under three selectors, with ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import ClassVar, NamedTuple

from shiftproof.paper.comparison import Cell, Comparison, Published, Row, measured
from shiftproof.paper.domainbed import (
    Part,
    ProtocolStudy,
    compare_rows,
    is_comparable,
    protocol_notes,
    results_of,
    trial_averages,
)
from shiftproof.paper.published import PaperRow, paper_table
from shiftproof.paper.studies import Choice, Findings, Scale
from shiftproof.sweeps.aggregate import DatasetResults
from shiftproof.sweeps.comparisons import rank_algorithms
from shiftproof.sweeps.jobs import Variant
from shiftproof.sweeps.results import Run

PUBLISHED_SELECTOR = "oracle"


class Table2(ProtocolStudy):
    """22 algorithms on seven datasets.

    The paper prints the table for the oracle only; for other selectors, only ours are shown.
    """

    name = "table2"
    folder = "table2"
    # Leave-one-domain-out needs a run for each pair of domains as well.
    selectors: ClassVar[Mapping[Scale, tuple[str, ...]]] = {
        "full": ("oracle", "training-domain", "leave-one-domain-out"),
        "lite": ("oracle", "training-domain"),
    }
    trials: ClassVar[Mapping[Scale, int]] = {"full": 3, "lite": 1}

    def parts(self) -> list[Part]:
        """Return the detailed table of each dataset, with the rows of Table 2."""
        return [Part(paper_table(f"detail-{dataset}"), dataset, _rows()) for dataset in _datasets()]

    def find(self, outcomes: Sequence[Run], choice: Choice) -> Findings:
        """Return accuracies and ranks over datasets by selector, and a table per dataset."""
        tables: list[Comparison | None] = []
        for selector in self.selectors_of(choice):
            tables += _summary(outcomes, choice, selector)
        for part in self.parts():
            # A detailed table prints fewer rows than Table 2.
            rows = tuple(Variant.plain(row.ours) for row in part.table.rows)
            detail = part._replace(rows=rows)
            # The paper has details for the oracle; other selectors only if requested.
            for selector in choice.selection or (PUBLISHED_SELECTOR,):
                tables.append(compare_rows(detail, outcomes, choice, selector))
        return Findings(tuple(table for table in tables if table is not None))


def _datasets() -> list[str]:
    return [str(column.ours) for column in paper_table("table2").columns]


def _rows() -> tuple[Variant, ...]:
    return tuple(Variant.plain(row.ours) for row in paper_table("table2").rows)


class _Column(NamedTuple):
    """A column: the position of the paper's accuracies and the dataset of ours, if any."""

    heading: str
    paper: int | None
    dataset: str = ""


def _summary(outcomes: Sequence[Run], choice: Choice, selector: str) -> list[Comparison]:
    """Return Table 2 and its ranks for a selector; empty if there are no numbers."""
    table = paper_table("table2")
    by_dataset: dict[str, DatasetResults] = {}
    for dataset in _datasets():
        results = results_of(outcomes, choice.name_of(dataset), _rows(), selector)
        if results is not None:
            by_dataset[dataset] = results
    averages = {
        row.ours: {name: trial_averages(results, row.ours) for name, results in by_dataset.items()}
        for row in table.rows
    }
    if not any(values for by_name in averages.values() for values in by_name.values()):
        return []
    published = selector == PUBLISHED_SELECTOR
    columns = _columns(by_dataset, choice)
    rows = [
        _row(row, columns, by_dataset, averages[row.ours], published=published)
        for row in table.rows
    ]
    comparable = all(is_comparable(results, name, choice) for name, results in by_dataset.items())
    whole = all(cell.comparable for row in rows for cell in row.cells)
    notes = _notes(by_dataset, choice, selector)
    return [
        Comparison(
            "table2" if published else f"table2-{selector}",
            f"DomainBed (Table 2), selection by {selector}",
            (*(column.heading for column in columns), "Avg"),
            tuple(rows),
            comparable=comparable,
            notes=tuple(notes),
        ),
        _ranks(averages, list(by_dataset), selector, notes, comparable=comparable and whole),
    ]


def _columns(by_dataset: Mapping[str, DatasetResults], choice: Choice) -> list[_Column]:
    """Return the paper's columns; a stand-in with other domains gets its own column."""
    columns = []
    for position, column in enumerate(paper_table("table2").columns):
        dataset = str(column.ours)
        known = {domain.ours for domain in paper_table(f"detail-{dataset}").columns}
        if dataset in by_dataset and known != {*by_dataset[dataset].domains}:
            columns.append(_Column(column.name, position))
            columns.append(_Column(choice.name_of(dataset), None, dataset))
        else:
            columns.append(_Column(column.name, position, dataset))
    return columns


def _row(
    row: PaperRow,
    columns: Sequence[_Column],
    by_dataset: Mapping[str, DatasetResults],
    averages: Mapping[str, Mapping[int, float]],
    *,
    published: bool,
) -> Row:
    """Return a row: accuracies by column, and their average if every dataset has one."""
    cells = []
    for column in columns:
        results = by_dataset.get(column.dataset)
        # The best of fewer draws than the paper's is lower.
        whole = bool(results and row.ours in results.algorithms and results.complete(row.ours))
        paper = None if column.paper is None or not published else row.values[column.paper]
        ours = [*averages.get(column.dataset, {}).values()]
        cells.append(Cell(paper, measured(ours), whole))
    everywhere = len(columns) == len(row.values) and all(cell.ours for cell in cells)
    common = set.intersection(*map(set, averages.values()))
    by_trial = [fmean(trials[trial] for trials in averages.values()) for trial in sorted(common)]
    cells.append(
        Cell(
            row.average if published else None,
            measured(by_trial if everywhere else []),
            all(cell.comparable for cell in cells),
        )
    )
    return Row(row.name, (), tuple(cells))


def _notes(by_dataset: Mapping[str, DatasetResults], choice: Choice, selector: str) -> list[str]:
    """Return notes on our runs; notes that hold for all datasets appear once."""
    notes = {
        name: protocol_notes(results, selector, choice.scale)
        for name, results in by_dataset.items()
    }
    first, *others = notes.values()
    alike = [note for note in first if all(note in theirs for theirs in others)]
    apart = [
        f"{name}: {note}" for name, theirs in notes.items() for note in theirs if note not in alike
    ]
    stand_ins = [
        f"Ours are on {choice.name_of(name)} in place of {name}."
        for name in by_dataset
        if choice.stand_in_of(name)
    ]
    return [*alike, *apart, *stand_ins, *paper_table("table2").notes]


def _ranks(
    averages: Mapping[str, Mapping[str, Mapping[int, float]]],
    datasets: Sequence[str],
    selector: str,
    notes: list[str],
    *,
    comparable: bool,
) -> Comparison:
    """Return the ranks over the datasets that we have run."""
    table = paper_table("table2")
    published = selector == PUBLISHED_SELECTOR
    ranks = rank_algorithms(
        {
            # Ranks use the printed values, like the paper's: values that look equal are equal.
            row: {name: round(fmean(by.values()), 1) for name, by in by_name.items() if by}
            for row, by_name in averages.items()
        }
    )
    rows = []
    for row in table.rows:
        ours = ranks.get(row.ours)
        papers = row.ranking if published else None
        cells = [
            Cell(
                None if papers is None else Published(papers[position]),
                None if ours is None else measured([float(ours[position])]),
            )
            for position in range(len(table.ranking))
        ]
        rows.append(Row(row.name, (), tuple(cells)))
    return Comparison(
        "table2-ranks" if published else f"table2-ranks-{selector}",
        f"Ranks over datasets (Table 2), selection by {selector}",
        tuple(table.ranking),
        tuple(rows),
        unit="",
        comparable=comparable and len(datasets) == len(table.columns) and len(ranks) == len(rows),
        counts_runs=False,
        notes=(f"Ours are among {len(ranks)} algorithms on {', '.join(datasets)}.", *notes),
    )
