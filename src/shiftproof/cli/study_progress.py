"""The progress of a study on one line: "hospital 2 of 4, 3 min left"."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from shiftproof.api.parallel import DONE
from shiftproof.api.study_baselines import BASELINES
from shiftproof.cli.progress import LoadingBar
from shiftproof.data import DomainDataset
from shiftproof.reporting.page.sentences import noun_of
from shiftproof.reporting.terminal import dataset_summary
from shiftproof.training.config import RunConfig
from shiftproof.training.observers import Observer
from shiftproof.training.records import Record

# Seconds between lines where there is no terminal.
LINE_SECONDS = 10.0


class StudyProgress(LoadingBar, Observer):
    """The observer of a study: shows which domain is held out, and the time left.

    The time left is the mean time of the finished runs, times the number of remaining runs
    including the one on all domains, minus the time since the last run ended; unknown before
    the first run ends.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        super().__init__(quiet=quiet)
        self._noun, self._domains = "domain", 0
        self._done = 0
        self._started: float | None = None
        self._marked = 0.0  # when the last run ended, or the run on all domains began
        self._last = False

    def loaded(self, dataset: DomainDataset) -> None:
        """Print a summary of the data."""
        self._clear()
        self._noun = noun_of(dataset.columns)
        self._domains = len(dataset.domains)
        self._print_once(f"{dataset.name}: {dataset_summary(dataset)}")

    def progress(self, what: str, done: int, total: int) -> None:
        """Show the stage, or update the number of domains that were held out."""
        if what == DONE:
            self._done, self._marked = done, time.monotonic()
            if not self._last:
                self._show(force=True)
        elif self._started is None or what == BASELINES:
            self(what, done, total)
        else:
            self._show()

    def begin(self, config: RunConfig, step: int) -> None:
        """Show the current run."""
        if self._started is None:
            self._started = time.monotonic()
        if not self._last and not config.test_domains:
            self._last, self._marked = True, time.monotonic()
        self._show(force=True)

    def step(self, step: int, measured: Mapping[str, Any]) -> None:
        """Update the time left."""
        self._show()

    def record(self, record: Record) -> None:
        """Update the time left."""
        self._show()

    def line(self) -> str:
        """Return the current run and the time left."""
        runs_left = 0 if self._last else self._domains - self._done
        text = f"model on all {self._domains}"
        if not self._last:
            text = f"{self._noun} {min(self._done + 1, self._domains)} of {self._domains}"
        if self._started is None or not self._done:
            return text
        seconds_per_run = (self._marked - self._started) / self._done
        seconds = seconds_per_run * (runs_left + 1) - (time.monotonic() - self._marked)
        return f"{text}, {time_left(max(seconds, 1.0))} left"

    def _show(self, *, force: bool = False) -> None:
        now = time.monotonic()
        if not self._domains or (not force and now - self._printed < 1.0):
            return
        if not self._prints_lines:
            self._printed = now
            self._bars.note = self.line()
        elif now - self._printed >= LINE_SECONDS or (force and self.line() not in self._lines):
            self._printed = now
            self._print_once(self.line())


def time_left(seconds: float) -> str:
    """Return a duration as text, rounded up.

    >>> time_left(4), time_left(42), time_left(130), time_left(7300)
    ('5 s', '45 s', '3 min', '2.1 h')
    """
    if seconds <= 55:
        return f"{max(5, 5 * -(-int(seconds) // 5))} s"
    if seconds <= 5400:
        return f"{-(-int(seconds) // 60)} min"
    return f"{-(-int(seconds) // 360) / 10:.1f} h"
