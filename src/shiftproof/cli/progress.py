"""Progress bars on standard error; standard output is for results."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from shiftproof.cli.messages import in_options
from shiftproof.data import DomainDataset
from shiftproof.metrics import METRICS
from shiftproof.reporting.terminal import dataset_summary
from shiftproof.training.config import RunConfig
from shiftproof.training.observers import Observer
from shiftproof.training.records import Record, shown_measure

REFRESH_SECONDS = 0.5
LINE_SECONDS = 2.0
LOADING_LINE_SECONDS = 10.0


class _Bars(Progress):
    """Progress bars with a separate line below for what does not fit next to them."""

    note = ""

    def stop(self) -> None:
        """End the display, if any; without one, rich before version 15 prints an empty line."""
        if not self.disable:
            super().stop()

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        if self.note:
            yield Text(self.note, style="cyan")


class LoadingBar:
    """Shows how much of the data is read; the bar disappears when the task is done.

    Without a terminal, a long task prints a line every ten seconds.

    It can be passed as a `Progress` callback.
    """

    _transient = True

    def __init__(self, *more_columns: ProgressColumn, quiet: bool = False) -> None:
        self._console = Console(stderr=True)
        self._quiet = quiet
        self._bars = _Bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("time left"),
            TimeRemainingColumn(compact=True),
            *more_columns,
            console=self._console,
            transient=self._transient,
            disable=quiet or not self._console.is_terminal,
        )
        self._prints_lines = not quiet and not self._console.is_terminal
        self._printed = 0.0
        self._loading: dict[str, TaskID] = {}
        self._lines: set[str] = set()

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *ended: object) -> None:
        self._clear()
        self._bars.stop()

    def _clear(self) -> None:
        """Remove the bars of unfinished tasks."""
        for task in self._loading.values():
            self._bars.remove_task(task)
        self._loading.clear()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show how much of `what` is done."""
        if what not in self._loading:
            self._loading[what] = self._bars.add_task(what, total=total, loss="")
            self._printed = time.monotonic()
        self._bars.update(self._loading[what], completed=done, total=total)
        if 0 < total <= done:
            self._bars.remove_task(self._loading.pop(what))
        now = time.monotonic()
        if self._prints_lines and now - self._printed >= LOADING_LINE_SECONDS:
            self._printed = now
            self._print(f"{what}: {done} of {total}")

    def progress(self, what: str, done: int, total: int) -> None:
        """Show how much of `what` is done."""
        self(what, done, total)

    def note(self, text: str) -> None:
        """Print a note once, above the bars."""
        self._print_once(f"note: {in_options(text)}")

    def _print_once(self, text: str) -> None:
        if text and not self._quiet and text not in self._lines:
            self._lines.add(text)
            self._print(text)

    def _print(self, text: str) -> None:
        self._console.print(text, soft_wrap=True, highlight=False, markup=False)


class ProgressBar(LoadingBar, Observer):
    """Shows the progress of loading and of runs: loss, accuracy per domain, time left.

    Every run gets a bar, named `title` or, by default, after its algorithm and test domains.  A
    note that several runs share is printed once.  Without a terminal, evaluations are printed as
    lines, at most one every two seconds.
    """

    _transient = False

    def __init__(self, title: str = "", *, quiet: bool = False) -> None:
        super().__init__(TextColumn("{task.fields[loss]}"), quiet=quiet)
        self._title = title
        self._heading = ""
        self._run: TaskID | None = None
        self._name = ""
        self._steps = 0
        self._looked = self._recorded = 0.0

    def loaded(self, dataset: DomainDataset) -> None:
        """Store the summary of the data, which is shown only if something is trained."""
        self._clear()
        self._heading = f"{dataset.name}: {dataset_summary(dataset)}"

    def begin(self, config: RunConfig, step: int) -> None:
        """Show the heading, once, and a bar at `step`."""
        self._print_once(self._heading)
        without = f" without {', '.join(config.test_domains)}" if config.test_domains else ""
        self._name = self._title or config.algorithm + without
        self._steps = config.steps
        self._run = self._bars.add_task(
            f"[bold]{escape(self._name)}", total=config.steps, completed=step, loss=""
        )
        if step and not self._quiet:
            self._print(f"{self._name}: resuming after step {step}")

    def step(self, step: int, measured: Mapping[str, Any]) -> None:
        """Move the bar and update the loss, at most twice a second."""
        now = time.monotonic()
        if self._run is None or now - self._looked < REFRESH_SECONDS:
            return
        self._looked = now
        self._bars.update(self._run, completed=step, loss=f"loss {measured['loss']:.4g}")

    def record(self, record: Record) -> None:
        """Show the accuracies."""
        name, values = shown_measure(record)
        accuracy = "  ".join(f"{k} {METRICS.get(name).cell(v)}" for k, v in values.items())
        self._bars.note = f"  step {record['step']}: {accuracy}"
        if self._run is not None:
            self._bars.update(self._run, completed=record["step"])
        now = time.monotonic()
        due = now - self._recorded >= LINE_SECONDS or record["step"] == self._steps
        if self._prints_lines and due:
            self._recorded = now
            loss = f"loss {record['loss']:.4g}"
            self._print(f"{self._name}: step {record['step']}  {loss}  {accuracy}")
