"""``shiftproof report``: tables or a page of the results of sweeps and runs."""

from __future__ import annotations

import shlex
import sys
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import click

from shiftproof.api.settings import ReportSettings
from shiftproof.cli._options import Argument, command
from shiftproof.cli.messages import in_options
from shiftproof.core.errors import InvalidValue, UnknownName
from shiftproof.core.settings import path, setting, text
from shiftproof.core.text import counted

# Formats that hold the runs themselves instead of tables.
RUN_FORMATS = ("domainbed", "records")
# Formats for programs; notes on the runs are printed to standard error instead.
NO_NOTES = ("csv", "chosen", "ranks", "domainbed")
FOLDERS = Argument(
    "folders",
    "Folder of a sweep (Shiftproof or DomainBed) or of runs of [bold]shiftproof train[/], or a file"
    " of records; several are combined.",
    nargs=-1,
    required=True,
)


@dataclass(frozen=True, kw_only=True)
class ReportOptions(ReportSettings):
    """The options of `shiftproof report`."""

    format: str = setting(
        "text",
        text,
        "Tables: text, markdown, latex or csv; chosen lists the run, step and hyper-parameters"
        " behind each number; html is one page with tables, charts and settings; ranks is a"
        " critical-difference diagram (SVG). The runs themselves: domainbed (a folder of"
        " DomainBed's logs) or records (one file).",
    )
    out: Path | None = setting(
        None, path, "File to write; html is written to report.html in the folder by default."
    )


@command(
    ReportOptions,
    FOLDERS,
    example="[bold]shiftproof report runs/sweep --format html --out results.html[/]",
)
def report(folders: tuple[str, ...], settings: ReportOptions) -> None:
    """Print the tables of a sweep: accuracies, ranks, tests against a baseline; or write a page."""
    format_, out = settings.format, settings.out
    from shiftproof.api.report import FORMATS, report as read, write_records

    if format_ not in (*FORMATS, *RUN_FORMATS):
        raise UnknownName("format", format_, [*FORMATS, *RUN_FORMATS])
    if format_ in RUN_FORMATS and out is None:
        raise InvalidValue(f"--format {format_} writes runs: give --out")
    if format_ == "records" and out is not None:
        print(f"{out}: {write_records([Path(folder) for folder in folders], out)} runs")
        return
    results = read(*folders, **settings.given(ReportSettings))
    results = replace(results, notes=tuple(map(in_options, results.notes)))
    if format_ in NO_NOTES:
        for note in results.notes:
            print(f"note: {note}", file=sys.stderr)
    if format_ == "domainbed" and out is not None:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            count = results.write_domainbed(out)
        for warning in warned:
            print(f"warning: {warning.message}", file=sys.stderr)
        print(f"{out}: {count} of {len(results.runs)} runs, those that have finished")
    elif format_ == "html" or out is not None:
        command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
        print(results.save(out, format_, command))
    else:
        print(results.render(format_), end="")
    if all(run.status == "failed" for run in results.runs):
        reasons = dict.fromkeys(run.failure for run in results.runs if run.failure)
        why = next(iter(reasons), "their folders do not say why")
        print(f"all {counted(len(results.runs), 'run')} failed: {why}", file=sys.stderr)
        raise click.exceptions.Exit(1)
