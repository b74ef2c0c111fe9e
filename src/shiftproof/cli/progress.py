"""A progress bar for a run: loss, accuracy per domain, time left."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from torch import Tensor

from shiftproof.training.config import RunConfig
from shiftproof.training.loop import Observer
from shiftproof.training.records import Record

REFRESH_SECONDS = 0.5


class ProgressBar(Observer):
    """Shows a run on standard error, which leaves standard output to results.

    Without a terminal, one line per evaluation is printed in place of a bar.
    """

    def __init__(self, title: str, *, quiet: bool = False) -> None:
        self._title = title
        self._quiet = quiet
        self._console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[loss]}[cyan]{task.fields[accuracy]}"),
            console=self._console,
            disable=quiet or not self._console.is_terminal,
        )
        self._task: TaskID | None = None
        self._looked = 0.0

    def __enter__(self) -> ProgressBar:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def begin(self, config: RunConfig, step: int) -> None:
        """Show the bar at ``step``."""
        self._task = self._progress.add_task(
            self._title, total=config.steps, completed=step, loss="", accuracy=""
        )
        if step and not self._quiet:
            self._console.print(f"{self._title}: going on after step {step}")

    def step(self, step: int, measured: dict[str, Tensor]) -> None:
        """Move the bar; look at the loss now and then."""
        now = time.monotonic()
        if self._task is None or now - self._looked < REFRESH_SECONDS:
            return
        self._looked = now
        self._progress.update(self._task, completed=step, loss=f"loss {measured['loss']:.4g}  ")

    def record(self, record: Record) -> None:
        """Show the accuracies."""
        accuracy = "  ".join(f"{k} {100 * v:.1f}%" for k, v in record["accuracy"].items())
        if self._task is not None:
            self._progress.update(self._task, completed=record["step"], accuracy=accuracy)
        if not self._quiet and not self._console.is_terminal:
            self._console.print(
                f"{self._title}: step {record['step']}  loss {record['loss']:.4g}  {accuracy}",
                soft_wrap=True,
                highlight=False,
            )
