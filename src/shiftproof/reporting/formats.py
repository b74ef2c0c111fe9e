"""The results of a sweep in every format: text, Markdown, LaTeX, CSV; and the selected runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from shiftproof.reporting.missing_runs import describe_missing
from shiftproof.reporting.renderers.csv_lines import as_csv
from shiftproof.reporting.renderers.latex import as_latex
from shiftproof.reporting.renderers.markdown import as_markdown, markdown_text
from shiftproof.reporting.renderers.text import as_text
from shiftproof.reporting.table import Cell, Column, Row, Table
from shiftproof.reporting.words import ERROR_BAR, number_ranges
from shiftproof.sweeps.aggregate import SelectionResults

Record = dict[str, Any]
ACCURACY_COLUMNS = (
    "dataset", "algorithm", "test_domain", "selector", "split", "mean", "error", "error_bar",
    "trials", "trial_seeds", "trials_expected", "hparams_seeds", "missing",
)  # fmt: skip
SELECTED_COLUMNS = (
    "dataset", "algorithm", "test_domain", "selector", "trial_seed", "hparams_seed", "step",
    "accuracy", "hparams", "run",
)  # fmt: skip
PACKAGES = r"% \usepackage{booktabs,xcolor,adjustbox}  % what these tables need"


def accuracy_records(all_results: Sequence[SelectionResults]) -> Iterator[Record]:
    """Yield one record per selector, dataset, algorithm and test domain, under our names.

    Numbers are in percent and not rounded for print.
    """
    for results in all_results:
        for dataset in results.datasets:
            for algorithm in results.algorithms:
                for domain, cell in zip(dataset.domains, dataset.row(algorithm), strict=True):
                    found = cell.estimate
                    yield {
                        "dataset": dataset.dataset,
                        "algorithm": algorithm,
                        "test_domain": domain,
                        "selector": results.selector.name,
                        "split": "test-in",
                        "mean": found.mean if found else None,
                        "error": found.error if found and found.trials > 1 else None,
                        "error_bar": ERROR_BAR,
                        "trials": len(cell.selections),
                        "trial_seeds": number_ranges(cell.selections),
                        "trials_expected": len(cell.trials),
                        "hparams_seeds": number_ranges(dataset.draws),
                        "missing": "; ".join(describe_missing(cell.missing)),
                    }


def selected_records(all_results: Sequence[SelectionResults]) -> Iterator[Record]:
    """Yield the run and step behind each number: one record per trial and test domain.

    ``hparams`` is JSON; ``accuracy`` is measured on the test domain's in part, in percent.
    """
    for results in all_results:
        for dataset in results.datasets:
            for (algorithm, position), cell in dataset.cells.items():
                for trial, selected in sorted(cell.selections.items()):
                    hparams = selected.run.hparams
                    yield {
                        "dataset": dataset.dataset,
                        "algorithm": algorithm,
                        "test_domain": dataset.domains[position],
                        "selector": results.selector.name,
                        "trial_seed": trial,
                        "hparams_seed": selected.run.hparams_seed,
                        "step": selected.step,
                        "accuracy": 100 * selected.accuracy,
                        "hparams": json.dumps(hparams) if hparams else "",
                        "run": str(selected.run.folder or ""),
                    }


def tables_as_text(tables: Sequence[Table], records: int, notes: Sequence[str] = ()) -> str:
    """Return the tables as DomainBed prints them, with captions and notes below each.

    ``notes`` come from `run_notes` and concern the runs behind all tables.
    """
    said = "".join(f"  {note}\n" for note in notes)
    return "\n".join([f"Total records: {records}\n{said}", *map(as_text, tables)])


def tables_as_markdown(tables: Sequence[Table], records: int, notes: Sequence[str] = ()) -> str:
    """Return the tables in Markdown; the best value of a column is bold."""
    said = [f"{markdown_text(note)}\n" for note in notes]
    return "\n".join([*map(as_markdown, tables), f"Total records: {records}\n", *said])


def tables_as_latex(tables: Sequence[Table], records: int, notes: Sequence[str] = ()) -> str:
    """Return the tables in LaTeX, marked as in the paper; the notes are comments."""
    said = "".join(f"% {' '.join(note.split())}\n" for note in notes)
    head = f"{PACKAGES}\n", f"% Total records: {records}\n{said}"
    return "\n".join([*head, *map(as_latex, tables)])


def accuracies_as_csv(all_results: Sequence[SelectionResults]) -> str:
    """Return `accuracy_records` as CSV."""
    return _csv(ACCURACY_COLUMNS, accuracy_records(all_results))


def selected_as_csv(all_results: Sequence[SelectionResults]) -> str:
    """Return `selected_records` as CSV."""
    return _csv(SELECTED_COLUMNS, selected_records(all_results))


def _csv(columns: Sequence[str], records: Iterable[Record]) -> str:
    rows = [Row((), tuple(Cell(_printed(record[name])) for name in columns)) for record in records]
    return as_csv(Table("", tuple(map(Column, columns)), tuple(rows), heads=()))


def _printed(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6f}" if isinstance(value, float) else str(value)
