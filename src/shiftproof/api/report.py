"""`report`: tables and a page of the results of sweeps and runs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from shiftproof.api.run_folders import HELD_OUT, STUDY
from shiftproof.core.errors import DataError, InvalidValue, UnknownName
from shiftproof.core.files import read_json, write_atomically
from shiftproof.metrics import METRICS
from shiftproof.reporting.formats import as_csv, tables_as_latex, tables_as_markdown, tables_as_text
from shiftproof.reporting.sweep_tables import (
    AccuracyRecord,
    SelectedRecord,
    accuracy_records,
    selected_records,
    sweep_tables,
)
from shiftproof.reporting.table import Table
from shiftproof.reporting.words import run_notes
from shiftproof.sweeps.aggregate import SelectionResults, aggregate
from shiftproof.sweeps.domainbed.export import unusable_selections, write_domainbed_runs
from shiftproof.sweeps.domainbed.names import in_table_order
from shiftproof.sweeps.read_runs import read_planned_runs, read_sweep, write_archive
from shiftproof.sweeps.results import Run
from shiftproof.sweeps.retrained import Retrained, read_retrained, retrained_results
from shiftproof.sweeps.selection import SELECTORS, Selector
from shiftproof.sweeps.standalone_runs import LastStep, kept_apart, run_end, runs_to_compare

if TYPE_CHECKING:
    import pandas as pd

    from shiftproof.reporting.page import Source

# In the order of DomainBed's tables; others follow.
SELECTIONS = ("training-domain", "leave-one-domain-out", "oracle")
# Only for runs that allow no other selection; next to others it would be mistaken for one of them.
LAST_RESORT = "best-minimum"
# In a folder of runs: what `ShiftReport.save` wrote there.
SAVED = "diagnosis.json"
SUFFIXES = {
    ".html": "html", ".txt": "text", ".md": "markdown", ".tex": "latex", ".csv": "csv",
    ".svg": "ranks",
}  # fmt: skip


@dataclass(frozen=True)
class Report:
    """The results of runs: tables, a page, and the runs behind the numbers.

    ``source`` is what the page shows besides the runs; by default, it is read from ``paths``.

    ``results`` has one entry per selector.  ``baseline`` is the algorithm that the others are
    compared with, and ``paths`` are the folders and files of the runs.  ``notes`` report anomalies
    in the files, such as several attempts at a run in one log.  ``metric`` is the score that the
    page shows first for held-out domains.
    """

    runs: tuple[Run, ...]
    results: tuple[SelectionResults, ...]
    baseline: str = "erm"
    paths: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    metric: str | None = None
    source: Source | None = None

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """Accuracies by dataset, averages, ranks and tests against the baseline, by selector."""
        return tuple(
            table for results in self.results for table in sweep_tables(results, self.baseline)
        )

    def to_frame(self) -> pd.DataFrame:
        """Return one row per dataset, algorithm, test domain and selector; values in percent."""
        import pandas as pd

        return pd.DataFrame(accuracy_records(self.results))

    def selected_runs(self) -> pd.DataFrame:
        """Return the run, step and hyper-parameters behind each number, one row per trial."""
        import pandas as pd

        return pd.DataFrame(selected_records(self.results))

    def to_text(self) -> str:
        """Return the tables as DomainBed prints them."""
        return tables_as_text(self.tables, self._records, self.notes)

    def to_markdown(self) -> str:
        """Return the tables in Markdown."""
        return tables_as_markdown(self.tables, self._records, self.notes)

    def to_latex(self) -> str:
        """Return the tables in LaTeX, with the markup of the paper."""
        return tables_as_latex(self.tables, self._records, self.notes)

    def to_csv(self) -> str:
        """Return `to_frame` as CSV."""
        return as_csv([AccuracyRecord._fields, *accuracy_records(self.results)])

    def selected_to_csv(self) -> str:
        """Return `selected_runs` as CSV."""
        return as_csv([SelectedRecord._fields, *selected_records(self.results)])

    def rank_picture(self) -> str:
        """Return the critical-difference diagrams of all selectors as one SVG picture."""
        from shiftproof.reporting.pictures import rank_picture

        return rank_picture(self.results)

    def page(self, command: str = "") -> str:
        """Return a self-contained HTML page with tables, charts and settings.

        ``command`` is the command that the page names as its source.
        """
        # Imported here, because the imports take seconds and tables do not need them.
        from shiftproof.reporting.page import results_page

        source = replace(self.source or self._read_source(), command=command)
        return results_page(self.runs, self.results, self.baseline, source)

    def _read_source(self) -> Source:
        """Read what the page shows besides the runs."""
        from shiftproof.api.held_out_runs import evidence_of, held_out_runs, training_results
        from shiftproof.api.study_folder import read_study
        from shiftproof.reporting.page import Source
        from shiftproof.reporting.page.shifts import page_diagnosis

        folders = [path for path in self.paths if path.is_dir()]
        settings = [folder / "sweep.json" for folder in folders]
        held_out = held_out_runs(self.runs, self.metric)
        source = Source(
            [str(path) for path in self.paths],
            sweeps=[read_json(path) for path in settings if path.is_file()],
            diagnoses=[page_diagnosis(p) for f in folders for p in sorted(f.rglob(SAVED))],
            notes=self.notes,
            held_out=held_out,
            evidence=evidence_of(held_out),
            training=training_results(self.runs),
        )
        for folder in folders:
            if (folder.parent / STUDY).is_file():
                source = read_study(folder.parent, source)
        return source

    def save(
        self,
        path: str | os.PathLike[str] | None = None,
        format: str | None = None,
        command: str = "",
    ) -> Path:
        """Write the report to a file and return its path.

        Args:
            path: the file; by default `report.html` in the folder of the runs.
            format: html, text, markdown, latex, csv, chosen (the selected runs) or ranks (an SVG
                picture); by default inferred from the suffix of ``path``.
            command: the command that a page names as its source.
        """
        path = self._page_path() if path is None else Path(path)
        if format is None:
            if path.suffix not in SUFFIXES:
                raise InvalidValue(f"{path} must end in {', '.join(SUFFIXES)}, or give `format`")
            format = SUFFIXES[path.suffix]
        if not path.parent.is_dir():
            raise DataError(f"there is no folder {path.parent} to write to")
        text = self.page(command) if format == "html" else self.render(format)
        write_atomically(path, text.encode())
        return path

    def render(self, format: str) -> str:
        """Return the report in one of `FORMATS`."""
        if format not in FORMATS:
            raise UnknownName("format", format, FORMATS)
        return FORMATS[format](self)

    def write_domainbed(self, folder: str | os.PathLike[str]) -> int:
        """Write the finished runs as DomainBed logs to a new folder; return their number.

        Warn about selection methods of DomainBed's tool that need values these runs lack.
        """
        count = write_domainbed_runs(self.runs, Path(folder))
        for text in unusable_selections(self.runs):
            warnings.warn(text, stacklevel=2)
        return count

    @property
    def _records(self) -> int:
        return sum(len(run.evaluations) for run in self.runs)

    def _page_path(self) -> Path:
        first = self.paths[0]
        in_study = (first.parent / STUDY).is_file()
        if in_study or first.is_dir():
            return (first.parent if in_study else first) / "report.html"
        return first.with_name(first.name.removesuffix(".gz").removesuffix(".jsonl") + ".html")

    def __repr__(self) -> str:
        names = [results.selector.name for results in self.results]
        return f"Report({len(self.runs)} runs, selection={names})"

    def _repr_html_(self) -> str:
        from shiftproof.reporting.page import tables_html

        return tables_html(self.tables)


FORMATS: dict[str, Callable[[Report], str]] = {
    "text": Report.to_text,
    "markdown": Report.to_markdown,
    "latex": Report.to_latex,
    "csv": Report.to_csv,
    "chosen": Report.selected_to_csv,
    "ranks": Report.rank_picture,
    "html": Report.page,
}


def report(
    *folders: str | os.PathLike[str],
    selection: str | Sequence[str] | None = None,
    baseline: str | None = None,
    as_domainbed: bool = False,
    metric: str | None = None,
) -> Report:
    """Read runs of sweeps, of `train` or of DomainBed, and select among them.

    Args:
        folders: folders of runs, or files of records, which are read together.
        selection: how to select runs and steps, as in `sweep`, or `retrained` for retrained runs;
            by default all methods that the runs allow.
        baseline: the algorithm to compare with; by default erm.
        as_domainbed: as DomainBed's tool does, also select among diverged and unfinished runs, and
            pool the records of a run over several folders.
        metric: the score that a page shows first for runs of `train_each`, as in `expect`; by
            default the score that the runs optimised, or accuracy.
    """
    if metric is not None:
        METRICS.checked(metric)
    if not folders:
        raise InvalidValue("`folders` must name at least one folder or file")
    # Of a study, only the runs with held-out domains are read.
    paths = tuple(p / HELD_OUT if (p / STUDY).is_file() else p for p in map(Path, folders))
    runs = read_sweep(*paths, pooled=as_domainbed)
    return report_of(runs, paths, selection, baseline, as_domainbed, metric)


def report_of(
    runs: Sequence[Run],
    paths: tuple[Path, ...],
    selection: str | Sequence[str] | None = None,
    baseline: str | None = None,
    as_domainbed: bool = False,
    metric: str | None = None,
    source: Source | None = None,
) -> Report:
    """Return the report of runs; its other arguments are those of `report`."""
    standalone = all(run.standalone for run in runs)
    retrained = read_retrained(runs, paths)
    asked = [selection] if isinstance(selection, str) else selection
    shows_retrained = bool(retrained) if asked is None else Retrained.name in asked
    if shows_retrained and not retrained:
        raise DataError(f"{paths[0]} has no retrained runs; make them with `retrain` of `sweep`")
    selectors = _selectors(
        asked and [name for name in asked if name != Retrained.name],
        run_end(runs) if standalone else None,
    )
    if as_domainbed:
        runs = [replace(run, status="finished") if run.evaluations else run for run in runs]
    algorithms = {run.algorithm for run in runs}
    if baseline is not None and baseline not in algorithms:
        raise UnknownName("baseline of this sweep", baseline, sorted(algorithms))
    groups = kept_apart(runs) if standalone else [runs]
    results = [r for group in groups for r in _selected(group, selectors, asked is None)]
    if shows_retrained:
        results.append(retrained_results(retrained, runs))
    notes = tuple(run_notes(runs))
    return Report(tuple(runs), tuple(results), baseline or "erm", paths, notes, metric, source)


def _selected(
    runs: Sequence[Run], selectors: Sequence[Selector], every: bool
) -> list[SelectionResults]:
    """Return the results of the selectors; with ``every``, of those that the runs allow."""
    expected = runs_to_compare(runs) if runs[0].standalone else None
    results: list[SelectionResults] = []
    if every:
        can = [selector for selector in selectors if selector.can_score(runs)]
        last = [selector for selector in can if selector.name == LAST_RESORT]
        for tried in ([selector for selector in can if selector not in last], last):
            results = results or [
                selected
                for selector in tried
                if (selected := aggregate(runs, selector, expected)).has_numbers
            ]
    return results or [aggregate(runs, selector, expected) for selector in selectors]


def write_records(folders: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str]) -> int:
    """Write all runs of sweeps to one compressed file for `report`; return their number."""
    return write_archive(read_planned_runs(*map(Path, folders)), Path(out))


def _selectors(asked: Sequence[str] | None, end: type[LastStep] | None) -> list[Selector]:
    """Return the requested selectors, or all applicable ones.

    ``end`` is the selector for the end of standalone runs.
    """
    known: dict[str, type[Selector]] = dict(SELECTORS.items())
    everything = list(in_table_order(known, SELECTIONS))
    if end:
        known = {LastStep.name: end, end.name: end, **known}
        # With one run each, the oracle has no choice: it equals the last step.
        everything = [end.name, *(name for name in everything if name != "oracle")]
    names = everything if asked is None else list(asked)
    for name in names:
        if name not in known:
            raise UnknownName("selection", name, known)
    return [known[name]() for name in names]
