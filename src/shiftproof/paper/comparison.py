"""The paper's numbers and ours side by side, with the difference in standard errors."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

# The possible meanings of ±.
ERRORS = ("standard deviation", "standard error")

# The standard deviation of the rounding error of values printed to one decimal.
ROUNDING = 0.1 / math.sqrt(12)


class Published(NamedTuple):
    """A number of the paper: ``error`` is what it prints after ±, None if it prints nothing.

    ``deviation`` is the standard deviation of single runs, as a sample estimate from ``runs`` runs.
    The printed ones differ: Table 1 prints the standard deviation of ten runs, the tables of
    DomainBed the standard error of three, both from the population standard deviation.
    """

    value: float
    error: float | None = None
    deviation: float | None = None
    runs: int = 1

    @property
    def standard_error(self) -> float | None:
        """The standard error of the mean."""
        return None if self.deviation is None else self.deviation / math.sqrt(self.runs)


@dataclass(frozen=True)
class Measured:
    """The values of our runs for the same cell, one per run, in the units of the paper."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over the runs."""
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float | None:
        """The sample standard deviation of the runs; None for a single run."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def standard_error(self) -> float | None:
        """The standard error of the mean; None for a single run."""
        deviation = self.deviation
        return None if deviation is None else deviation / math.sqrt(len(self.values))


@dataclass(frozen=True)
class Cell:
    """One cell of a table: the paper's number and ours; either may be missing.

    Unless ``comparable``, ours is from fewer runs than the paper's, and no difference is given.
    """

    paper: Published | None = None
    ours: Measured | None = None
    comparable: bool = True

    @property
    def difference(self) -> float | None:
        """Our mean minus the paper's value, in the units of both."""
        if self.paper is None or self.ours is None or not self.comparable:
            return None
        return self.ours.mean - self.paper.value

    @property
    def in_standard_errors(self) -> float | None:
        """The difference over √(s² + s'² + r²): standard errors of both, and of rounding.

        A single run of ours has no standard error of its own: the paper's deviation is used.
        """
        difference = self.difference
        if difference is None or self.paper is None or self.ours is None:
            return None
        theirs, ours = self.paper.standard_error, self.ours.standard_error
        if ours is None:
            ours = self.paper.deviation
        if theirs is None or ours is None:
            return None
        together = math.hypot(theirs, ours, ROUNDING)
        return difference / together if together > 0 else None

    def beyond_by_chance(self, errors: float) -> float | None:
        """Return the probability of exceeding `errors` standard errors if both means are equal.

        This is P(|t_ν| > errors), with Welch and Satterthwaite's degrees of freedom ν; for a single
        run of ours, the deviation and ν are the paper's.
        """
        from scipy.stats import t

        if self.in_standard_errors is None or self.paper is None or self.ours is None:
            return None
        theirs, ours = self.paper.standard_error or 0.0, self.ours.standard_error
        if ours is None:
            return float(2 * t.sf(errors, max(self.paper.runs - 1, 1)))
        counted = ((theirs, self.paper.runs), (ours, len(self.ours.values)))
        parts = sum(error**4 / (runs - 1) for error, runs in counted if runs > 1)
        freedom = (theirs**2 + ours**2) ** 2 / parts if parts > 0 else math.inf
        return float(2 * t.sf(errors, freedom))


class Row(NamedTuple):
    """A row of a table: its name, its marks (yes, no, -), and its cells in order."""

    name: str
    marks: tuple[str, ...]
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Comparison:
    """A table of the paper with our numbers beside it.

    ``marks`` are the headings of the rows' marks and ``columns`` those of their cells; ``unit`` is
    the unit of the cells (``%``, ``h``, ``GB`` or nothing); ``error`` says what is printed after ±,
    for the paper and for ours (standard deviation or standard error).  Unless ``comparable``, our
    runs have another size or other data, and a difference would mean nothing.  Unless
    ``counts_runs``, our numbers are not means of runs.  ``notes`` say in whole sentences what a
    reader must know: size, selection, seeds.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    marks: tuple[str, ...] = ()
    unit: str = "%"
    error: str = "standard error"
    comparable: bool = True
    counts_runs: bool = True
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.error not in ERRORS:
            raise ValueError(f"± stands for one of {', '.join(ERRORS)}, not {self.error}")
        for row in self.rows:
            if len(row.cells) != len(self.columns) or len(row.marks) != len(self.marks):
                raise ValueError(f"row {row.name} of {self.name} does not fit its headings")


def measured(values: Sequence[float]) -> Measured | None:
    """Return the values of our runs, or None if there are none."""
    return Measured(tuple(values)) if values else None
