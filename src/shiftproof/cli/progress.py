"""A progress bar for a run: loss, accuracy per domain, time left."""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import TracebackType

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text
from torch import Tensor

from shiftproof.cli.messages import in_options
from shiftproof.training.config import RunConfig
from shiftproof.training.observers import Observer
from shiftproof.training.records import Record

REFRESH_SECONDS = 0.5
LINE_SECONDS = 2.0
LOADING_LINE_SECONDS = 10.0


class _ProgressWithNote(Progress):
    """Bars with a line of their own below for what does not fit beside them."""

    note = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        if self.note:
            yield Text(self.note, style="cyan")


class ProgressBar(Observer):
    """Shows a run on standard error, which leaves standard output to results.

    Without a terminal, evaluations are printed as lines in place of a bar, one in two seconds.
    What was ``said`` in the notes of earlier runs is not said again.
    """

    def __init__(
        self, title: str, heading: str = "", *, quiet: bool = False, said: set[str] | None = None
    ) -> None:
        self._title = title
        self._heading = heading
        self._said = set() if said is None else said
        self._quiet = quiet
        self._console = Console(stderr=True)
        self._progress = _ProgressWithNote(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("time left"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[loss]}"),
            console=self._console,
            disable=quiet or not self._console.is_terminal,
        )
        self._task: TaskID | None = None
        self._steps = 0
        self._looked = self._printed = 0.0

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
        """Show the heading, once, and the bar at ``step``."""
        self._say(self._heading)
        self._steps = config.steps
        self._task = self._progress.add_task(
            self._title, total=config.steps, completed=step, loss=""
        )
        if step and not self._quiet:
            self._console.print(f"{self._title}: going on after step {step}")

    def note(self, text: str) -> None:
        """Print it above the bar."""
        self._say(f"note: {in_options(text)}")

    def _say(self, text: str) -> None:
        if text and not self._quiet and text not in self._said:
            self._said.add(text)
            self._console.print(text, soft_wrap=True, highlight=False)

    def step(self, step: int, measured: dict[str, Tensor]) -> None:
        """Move the bar; look at the loss now and then."""
        now = time.monotonic()
        if self._task is None or now - self._looked < REFRESH_SECONDS:
            return
        self._looked = now
        self._progress.update(self._task, completed=step, loss=f"loss {measured['loss']:.4g}")

    def record(self, record: Record) -> None:
        """Show the accuracies."""
        accuracy = "  ".join(f"{k} {100 * v:.1f}%" for k, v in record["accuracy"].items())
        self._progress.note = f"  step {record['step']}: {accuracy}"
        if self._task is not None:
            self._progress.update(self._task, completed=record["step"])
        if self._quiet or self._console.is_terminal:
            return
        now = time.monotonic()
        if now - self._printed >= LINE_SECONDS or record["step"] == self._steps:
            self._printed = now
            self._console.print(
                f"{self._title}: step {record['step']}  loss {record['loss']:.4g}  {accuracy}",
                soft_wrap=True,
                highlight=False,
            )


class LoadingBar:
    """Shows on standard error how far the reading of data is; gone when it is done.

    Without a terminal, a line is printed every ten seconds.

    It is a `Progress`.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("time left"),
            TimeRemainingColumn(compact=True),
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
        )
        self._console = console
        self._lines = not quiet and not console.is_terminal
        self._printed = time.monotonic()
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> LoadingBar:
        self._progress.start()
        return self

    def __exit__(self, *ended: object) -> None:
        self._progress.stop()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show how much of ``what`` is done."""
        if what not in self._tasks:
            self._tasks[what] = self._progress.add_task(what, total=total)
        self._progress.update(self._tasks[what], completed=done, total=total)
        now = time.monotonic()
        if self._lines and now - self._printed >= LOADING_LINE_SECONDS:
            self._printed = now
            self._console.print(f"{what}: {done} of {total}", highlight=False)
