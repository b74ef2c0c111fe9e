"""Errors and warnings of the estimators, as the types that scikit-learn uses."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from shiftproof.core.errors import ShiftproofError
from shiftproof.training.observers import Observer
from shiftproof.training.records import Record, shown_measure

LINE_SECONDS = 2.0


class EstimatorError(ShiftproofError, ValueError):
    """A Shiftproof error that is also a `ValueError`, as scikit-learn and its users expect."""


@contextmanager
def value_errors() -> Iterator[None]:
    """Raise Shiftproof's errors as `ValueError`s."""
    try:
        yield
    except ShiftproofError as error:
        if isinstance(error, EstimatorError):
            raise
        raise EstimatorError(str(error)) from error


class Reporter(Observer):
    """Turns the notes of a run into warnings and, if `verbose`, prints progress."""

    def __init__(self, title: str, steps: int, *, verbose: bool) -> None:
        self._title = title
        self._steps = steps
        self._verbose = verbose
        self._printed = 0.0

    def note(self, text: str) -> None:
        """Issue a warning."""
        warnings.warn(text, stacklevel=2)

    def loading(self, what: str, done: int, total: int) -> None:
        """Print how much of the data has been read."""
        self._print(f"{what}: {done} of {total}", always=False)

    def record(self, record: Record) -> None:
        """Print the loss, and the accuracies on the held-out parts."""
        scores = "".join(
            f"  {name} {value:.3f}" for name, value in shown_measure(record)[1].items()
        )
        line = f"{self._title}: step {record['step']} of {self._steps}  loss {record['loss']:.4g}"
        self._print(line + scores, always=record["step"] == self._steps)

    def _print(self, line: str, *, always: bool) -> None:
        now = time.monotonic()
        if self._verbose and (always or now - self._printed >= LINE_SECONDS):
            self._printed = now
            print(line, flush=True)
