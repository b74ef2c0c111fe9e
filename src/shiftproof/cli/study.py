"""`shiftproof study`: diagnose data, train a model, estimate what to expect, write a page."""

from __future__ import annotations

import sys
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

import shiftproof
from shiftproof.api.settings import StudySettings
from shiftproof.cli._options import DATA, Quiet, command
from shiftproof.cli.messages import in_options
from shiftproof.cli.preflight import check_data, for_each_label
from shiftproof.cli.train import exit_unless_finished
from shiftproof.core.settings import flag, setting

if TYPE_CHECKING:
    from shiftproof.api.study import Study


@dataclass(frozen=True, kw_only=True)
class StudyOptions(StudySettings, Quiet):
    """The options of `shiftproof study`."""

    no_open: bool = setting(False, flag, "Do not open the page in a browser.")


@command(
    StudyOptions,
    DATA,
    example="[bold]shiftproof study patients.csv --label ill --domain hospital[/]",
)
@for_each_label
def study(data: str, settings: StudyOptions) -> None:
    """Measure shifts, estimate the score at a new domain, train a model, and write a page.

    Each domain is held out in turn; then a model is trained on all domains. Run the same command
    again to resume.
    """
    check_data(data, settings)
    if not settings.quiet:
        click.echo(f"reading {data}", err=True)  # printed before the imports, which take seconds

    from shiftproof.cli.study_progress import StudyProgress

    with StudyProgress(quiet=settings.quiet) as observer:
        results = shiftproof.study(data, observer=observer, **settings.given(StudySettings))
    _show(results, data, show_page=not settings.no_open)
    exit_unless_finished(results.runs, each=True)


def _show(results: Study, data: str, *, show_page: bool) -> None:
    """Print the diagnosis, the results, and the paths of the page and the model."""
    from rich.console import Console

    from shiftproof.reporting.terminal import forest_table, leave_one_out_table

    if results.page is None or results.final is None:
        return
    console = Console()
    *lines, _ = results.diagnosis.to_text(console.width).splitlines()  # the last names an option
    print(in_options("\n".join(lines)))
    console.print(leave_one_out_table(results.held_out.runs[0].config, results.held_out.scores))
    console.print(forest_table(results.held_out.expected))
    print(results.answer)
    print(f"The page is {results.page}")
    print(f"The model, trained on all domains, is in {results.final.folder}; use it with")
    new = _new_data(Path(data).expanduser())
    print(f"  shiftproof predict {results.final.folder} {new}")
    if show_page and sys.stdout.isatty():
        webbrowser.open(results.page.resolve().as_uri())


def _new_data(data: Path) -> str:
    """Return a name for new data of the same kind.

    >>> _new_data(Path("patients.csv.gz")), _new_data(Path("vectors.parquet"))
    ('NEW.csv', 'NEW.parquet')
    """
    if data.is_dir():
        return "NEW-IMAGES"
    return f"NEW{Path(data.name.removesuffix('.gz')).suffix}"
