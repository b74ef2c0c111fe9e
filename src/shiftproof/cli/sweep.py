"""``shiftproof sweep``: compare many runs under one protocol."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from shiftproof.api.settings import SweepSettings
from shiftproof.cli._options import Argument, Quiet, command
from shiftproof.core.errors import InvalidValue
from shiftproof.core.settings import path, setting

EXAMPLE = (
    "[bold]shiftproof sweep colored-mnist rotated-mnist --algorithms erm,coral,idm"
    " --preset lite --n-hparams 3 --trials 1 --out sweeps/first[/]"
)
# Exit codes of a sweep that has not finished.
CODES = {"stopped": 130, "failed": 1}
SEVERAL = Argument(
    "data", "Dataset names, folders of images, or tables.", nargs=-1, metavar="[DATA]..."
)


@dataclass(frozen=True, kw_only=True)
class SweepOptions(SweepSettings, Quiet):
    """The options of `shiftproof sweep`."""

    status: Path | None = setting(
        None, path, "Print the status of a sweep and stop.", panel="Runs", metavar="DIR"
    )


@command(SweepOptions, SEVERAL, example=EXAMPLE)
def sweep(data: tuple[str, ...], settings: SweepOptions) -> None:
    """Run the DomainBed protocol; run the same command again to resume."""
    if settings.status is not None:
        _show_status(settings.status)
        return
    if not data:
        raise InvalidValue("name at least one dataset, or give --status DIR")
    from shiftproof.api.sweep import sweep as run
    from shiftproof.cli.sweep_progress import SweepProgress

    with SweepProgress(quiet=settings.quiet, dry_run=settings.dry_run) as progress:
        done = run(data, observer=progress, **settings.given(SweepSettings))
    if done.status in CODES:
        raise click.exceptions.Exit(CODES[done.status])
    if not settings.dry_run:
        print(f"shiftproof report {settings.out} prints the tables")
    if done.models is not None:
        print(f"{done.models} lists the selected models")


def _show_status(folder: Path) -> None:
    from rich.console import Console

    from shiftproof.reporting.sweep import standing_table
    from shiftproof.sweeps.store import sweep_status

    standing, running = sweep_status(folder)
    Console().print(standing_table(standing))
    if running:
        print("running")
    elif standing.left:
        print("No process is running. Run the command again to resume.")
    elif standing.counts["failed"]:
        print("All runs have ended, some failed: --retry-failed runs those again.")
    else:
        print("All runs have ended.")
