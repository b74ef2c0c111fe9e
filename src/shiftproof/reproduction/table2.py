"""Table 2: every algorithm on every dataset of DomainBed, under three selectors, with ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import ClassVar

from shiftproof.benchmark.aggregate import DatasetResults
from shiftproof.benchmark.jobs import Variant
from shiftproof.benchmark.ranking import rank_algorithms
from shiftproof.benchmark.results import RunOutcome
from shiftproof.reproduction.comparison import Cell, Comparison, Published, Row, measured
from shiftproof.reproduction.domainbed import (
    Part,
    ProtocolStudy,
    compare_rows,
    is_comparable,
    protocol_notes,
    results_of,
    trial_averages,
)
from shiftproof.reproduction.paper import paper_table
from shiftproof.reproduction.studies import Choice, Findings, Scale

PUBLISHED_SELECTOR = "oracle"


class Table2(ProtocolStudy):
    """22 algorithms on seven datasets.

    The paper prints the table for the oracle alone; under the other selectors ours stand alone.
    """

    name = "table2"
    summary = "DomainBed: 22 algorithms, seven datasets, three selectors, ranks"
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

    def find(self, outcomes: Sequence[RunOutcome], choice: Choice) -> Findings:
        """Return accuracies and ranks over datasets by selector, and the datasets in detail."""
        tables: list[Comparison | None] = []
        for selector in self.selectors_of(choice):
            tables += _summary(outcomes, choice, selector)
        for part in self.parts():
            detail = Part(part.table, part.dataset, _printed_rows(part))
            # The paper has details of the oracle; others only if they were asked for.
            for selector in choice.selectors or (PUBLISHED_SELECTOR,):
                tables.append(compare_rows(detail, outcomes, choice, selector))
        return Findings(tuple(table for table in tables if table is not None))


def _datasets() -> list[str]:
    return [str(column.ours) for column in paper_table("table2").columns]


def _rows() -> tuple[Variant, ...]:
    return tuple(Variant.plain(row.ours) for row in paper_table("table2").rows)


def _printed_rows(part: Part) -> tuple[Variant, ...]:
    """Return the rows of a detailed table, which prints fewer than Table 2."""
    return tuple(Variant.plain(row.ours) for row in part.table.rows)


def _summary(outcomes: Sequence[RunOutcome], choice: Choice, selector: str) -> list[Comparison]:
    """Return Table 2 and its ranks under a selector; nothing if it has no number."""
    table = paper_table("table2")
    published = selector == PUBLISHED_SELECTOR
    found: dict[str, DatasetResults] = {}
    for dataset in _datasets():
        results = results_of(outcomes, choice.name_of(dataset), _rows(), selector)
        if results is not None:
            found[dataset] = results
    if not found:
        return []
    elsewhere = [name for name, results in found.items() if _has_own_domains(results, name)]
    rows, means = [], {}
    for row in table.rows:
        by_dataset = {
            dataset: trial_averages(results, row.ours) for dataset, results in found.items()
        }
        means[row.ours] = {
            dataset: sum(values) / len(values) for dataset, values in by_dataset.items() if values
        }
        cells = [
            Cell(
                paper if published and dataset not in elsewhere else None,
                measured(by_dataset.get(dataset, [])),
                dataset in found and _is_whole(found[dataset], row.ours),
            )
            for dataset, paper in zip(_datasets(), row.values, strict=True)
        ]
        whole = len(means[row.ours]) == len(table.columns)
        average = [fmean(values) for values in zip(*by_dataset.values(), strict=False)]
        cells.append(
            Cell(
                row.average if published and not elsewhere else None,
                measured(average if whole else []),
                all(cell.comparable for cell in cells),
            )
        )
        rows.append(Row(row.name, (), tuple(cells)))
    if not any(means.values()):
        return []
    comparable = all(is_comparable(r, dataset, choice) for dataset, r in found.items())
    said = {
        dataset: protocol_notes(results, selector, choice.scale)
        for dataset, results in found.items()
    }
    # What holds for all is said once.
    alike = [
        note for note in next(iter(said.values())) if all(note in own for own in said.values())
    ]
    notes = [
        *alike,
        *(
            f"{dataset}: {note}"
            for dataset, own in said.items()
            for note in own
            if note not in alike
        ),
        *(
            f"Ours are on {choice.name_of(dataset)} in place of {dataset}."
            for dataset in found
            if choice.stand_in_of(dataset)
        ),
        *table.notes,
    ]
    return [
        Comparison(
            "table2" if published else f"table2-{selector}",
            f"DomainBed (Table 2), selection by {selector}",
            (*(column.name for column in table.columns), "Avg"),
            tuple(rows),
            comparable=comparable,
            notes=tuple(notes),
        ),
        _ranks(
            means,
            list(found),
            selector,
            notes,
            comparable=comparable and all(c.comparable for row in rows for c in row.cells),
        ),
    ]


def _ranks(
    means: Mapping[str, Mapping[str, float]],
    datasets: Sequence[str],
    selector: str,
    notes: list[str],
    *,
    comparable: bool,
) -> Comparison:
    """Return the ranks over the datasets that we have."""
    table = paper_table("table2")
    published = selector == PUBLISHED_SELECTOR
    ranks = rank_algorithms(means)
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


def _is_whole(results: DatasetResults, row: str) -> bool:
    """Whether a row has all its runs: the best of fewer draws is lower."""
    return row in results.algorithms and results.complete(row)


def _has_own_domains(results: DatasetResults, dataset: str) -> bool:
    """Whether the data are a stand-in of which the paper has nothing to say."""
    return {column.ours for column in paper_table(f"detail-{dataset}").columns} != {
        *results.domains
    }
