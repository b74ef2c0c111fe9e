"""A sweep's tables: text as DomainBed lays it out, Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from shiftproof.report.escapes import latex_text, markdown_text
from shiftproof.report.tables import (
    ERROR_BAR,
    Entry,
    Sheet,
    describe_holes,
    marks,
    number_ranges,
    sheets,
)
from shiftproof.sweeps.aggregate import SelectionResults

CSV_COLUMNS = (
    "dataset", "algorithm", "test_domain", "selector", "split", "mean", "error", "error_bar",
    "trials", "trial_seeds", "trials_expected", "hparams_seeds", "missing",
)  # fmt: skip
CHOSEN_COLUMNS = (
    "dataset", "algorithm", "test_domain", "selector", "trial_seed", "hparams_seed", "step",
    "accuracy", "hparams", "run",
)  # fmt: skip


def as_text(
    all_results: Sequence[SelectionResults], records: int, baseline: str | None = "erm"
) -> str:
    """Return the tables as DomainBed lays them out, with captions and notes below each."""
    lines = [f"Total records: {records}"]
    for results in all_results:
        for sheet in sheets(results, baseline):
            table = [["Algorithm", *sheet.columns]]
            table += [[label, *map(_plain, entries)] for label, entries in sheet.rows.items()]
            width = max(sheet.width, *(len(cell) for row in table for cell in row))
            lines += ["", f"-------- {sheet.title}", *(_text_row(row, width) for row in table)]
            lines += [f"  {note}" for note in (sheet.caption, *sheet.notes)]
    return "\n".join(lines) + "\n"


def as_markdown(
    all_results: Sequence[SelectionResults], records: int, baseline: str | None = "erm"
) -> str:
    """Return the tables in Markdown; the best of a column is bold."""
    blocks = []
    for results in all_results:
        for sheet in sheets(results, baseline):
            rows = _formatted(sheet, _markdown_entry)
            header = ["Algorithm", *map(markdown_text, sheet.columns)]
            lines = [f"### {markdown_text(sheet.title)}", "", _markdown_row(header)]
            lines.append(_markdown_row(["---", *["---:"] * len(sheet.columns)]))
            lines += [
                _markdown_row([markdown_text(label), *cells]) for label, cells in rows.items()
            ]
            lines += ["", markdown_text(sheet.caption)]
            if sheet.notes:
                lines += ["", *(f"- {markdown_text(note)}" for note in sheet.notes)]
            blocks.append("\n".join(lines))
    return "\n\n".join([*blocks, f"Total records: {records}"]) + "\n"


def as_latex(
    all_results: Sequence[SelectionResults], records: int, baseline: str | None = "erm"
) -> str:
    """Return the tables in LaTeX, marked as in the paper.

    The best is bold, the second best underlined, worse than the baseline gray; equal numbers
    share their mark.
    """
    blocks = [
        r"% \usepackage{booktabs,xcolor,adjustbox}  % what these tables need",
        f"% Total records: {records}",
    ]
    for results in all_results:
        for sheet in sheets(results, baseline):
            rows = _formatted(sheet, _latex_entry)
            header = ["Algorithm", *(rf"\textbf{{{latex_text(name)}}}" for name in sheet.columns)]
            body = [[latex_text(label), *cells] for label, cells in rows.items()]
            notes = " ".join(latex_text(note) for note in (sheet.caption, *sheet.notes))
            lines = [
                r"\begin{table}",
                r"\centering",
                rf"\caption{{{latex_text(sheet.title)}. {notes}}}",
                r"\adjustbox{max width=\textwidth}{%",
                rf"\begin{{tabular}}{{l{'c' * len(sheet.columns)}}}",
                r"\toprule",
                " & ".join(header) + r" \\",
                r"\midrule",
                *(" & ".join(row) + r" \\" for row in body),
                r"\bottomrule",
                r"\end{tabular}}",
                r"\end{table}",
            ]
            blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def as_csv(
    all_results: Sequence[SelectionResults], records: int, baseline: str | None = "erm"
) -> str:
    """Return one row a selector, dataset, algorithm and test domain, under our names.

    Numbers are in percent and not rounded for print; neither ``records`` nor ``baseline``
    changes them.
    """
    rows = []
    for results in all_results:
        for dataset in results.datasets:
            for algorithm in results.algorithms:
                for domain, cell in zip(dataset.domains, dataset.row(algorithm), strict=True):
                    found = cell.estimate
                    rows.append(
                        {
                            "dataset": dataset.dataset,
                            "algorithm": algorithm,
                            "test_domain": domain,
                            "selector": results.selector.name,
                            "split": "test-in",
                            "mean": f"{found.mean:.6f}" if found else "",
                            "error": f"{found.error:.6f}" if found else "",
                            "error_bar": ERROR_BAR,
                            "trials": len(cell.selections),
                            "trial_seeds": number_ranges(cell.selections),
                            "trials_expected": len(cell.trials),
                            "hparams_seeds": number_ranges(dataset.draws),
                            "missing": "; ".join(describe_holes(cell.holes)),
                        }
                    )
    return _csv_of(CSV_COLUMNS, rows)


def as_chosen(
    all_results: Sequence[SelectionResults], records: int, baseline: str | None = "erm"
) -> str:
    """Return which run and step stand behind each number, as CSV: one row a trial and test domain.

    ``hparams`` are JSON; ``accuracy`` is the test domain's in part, in percent.  Neither
    ``records`` nor ``baseline`` changes anything.
    """
    rows = []
    for results in all_results:
        for dataset in results.datasets:
            for (algorithm, position), cell in dataset.cells.items():
                for trial, chosen in sorted(cell.selections.items()):
                    hparams = chosen.run.origin.config.get("hparams")
                    rows.append(
                        {
                            "dataset": dataset.dataset,
                            "algorithm": algorithm,
                            "test_domain": dataset.domains[position],
                            "selector": results.selector.name,
                            "trial_seed": trial,
                            "hparams_seed": chosen.run.hparams_seed,
                            "step": chosen.step,
                            "accuracy": f"{100 * chosen.accuracy:.6f}",
                            "hparams": json.dumps(hparams) if hparams else "",
                            "run": chosen.run.folder or "",
                        }
                    )
    return _csv_of(CHOSEN_COLUMNS, rows)


FORMATS: dict[str, Callable[[Sequence[SelectionResults], int, str | None], str]] = {
    "text": as_text,
    "markdown": as_markdown,
    "latex": as_latex,
    "csv": as_csv,
    "chosen": as_chosen,
}


def _csv_of(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _formatted(sheet: Sheet, entry: Callable[[Entry, str], str]) -> dict[str, list[str]]:
    labels = list(sheet.rows)
    baseline = labels.index(sheet.baseline) if sheet.baseline in labels else None
    columns = []
    for position, better in enumerate(sheet.better):
        entries = [sheet.rows[label][position] for label in labels]
        signs = marks([e.value for e in entries], better, baseline)
        columns.append([entry(e, mark) for e, mark in zip(entries, signs, strict=True)])
    return dict(zip(labels, map(list, zip(*columns, strict=True)), strict=True))


def _text_row(cells: Iterable[str], width: int) -> str:
    return "  ".join(cell.ljust(width) for cell in cells) + " "


def _plain(entry: Entry) -> str:
    error = f" +/- {entry.error}" if entry.error else ""
    return f"{entry.text}{error} {entry.sign}".rstrip()


def _markdown_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _markdown_entry(entry: Entry, mark: str) -> str:
    text = f"**{entry.text}**" if mark == "best" else entry.text
    error = f" ± {entry.error}" if entry.error else ""
    return f"{text}{error} {markdown_text(entry.sign)}".rstrip()


_LATEX_MARKS = {"best": r"\textbf", "second": r"\underline", "worse": r"\textcolor{gray}"}


def _latex_entry(entry: Entry, mark: str) -> str:
    number = latex_text(entry.text).replace("-", "$-$") if entry.value is not None else "--"
    text = f"{_LATEX_MARKS[mark]}{{{number}}}" if mark else number
    error = rf" \scriptsize{{$\pm$ {entry.error}}}" if entry.error else ""
    return f"{text}{error} {entry.sign}".rstrip()
