"""The progress of a sweep on standard error, and its results."""

from __future__ import annotations

from contextlib import ExitStack

import click
from rich.console import Console
from rich.live import Live

from shiftproof.cli.progress import LoadingBar
from shiftproof.reporting.sweep import failure_lines, plan_table, standing_table
from shiftproof.sweeps.store import Standing
from shiftproof.sweeps.sweep import SweepObserver, SweepPlan, SweepResult


class SweepProgress(SweepObserver):
    """Shows a loading bar, the plan, the state of the runs, and their results."""

    def __init__(self, *, quiet: bool, dry_run: bool) -> None:
        self._quiet = quiet
        self._dry_run = dry_run
        self._console = Console(stderr=True)
        self._shown = ExitStack()
        self._bar: LoadingBar | None = None
        self._live: Live | None = None

    def __enter__(self) -> SweepProgress:
        return self

    def __exit__(self, *ended: object) -> None:
        self._shown.close()

    def progress(self, what: str, done: int, total: int) -> None:
        """Move the loading bar."""
        if self._bar is None:
            self._bar = self._shown.enter_context(LoadingBar(quiet=self._quiet))
        self._bar(what, done, total)

    def planned(self, plan: SweepPlan, workers: int, done: int) -> None:
        """Print the plan."""
        self._shown.close()
        self._bar = None
        if self._dry_run or (plan.jobs and not self._quiet):
            if done:
                total = done + len(plan.jobs)
                self._console.print(f"{done} of {total} runs are done; remaining:")
            self._console.print(plan_table(plan, workers))

    def standing(self, standing: Standing) -> None:
        """Show the state of the runs, on a terminal."""
        if self._quiet or not self._console.is_terminal:
            return
        if self._live is None:
            live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live = self._shown.enter_context(live)
        self._live.update(standing_table(standing), refresh=True)

    def ended(self, result: SweepResult) -> None:
        """Print the results of the runs."""
        self._shown.close()
        self._live = self._bar = None
        Console().print(standing_table(result.standing))
        for line in failure_lines(result.failures):
            click.echo(line, err=True)
        if result.gave_up:
            click.echo(
                "Stopped: all runs failed at the start. Fix the cause and run the same command with"
                " --retry-failed.",
                err=True,
            )
        elif result.stopped:
            click.echo("Interrupted. Run the same command again to resume.", err=True)
        elif result.failures:
            click.echo("--retry-failed runs the failed runs again", err=True)
