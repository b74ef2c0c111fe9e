"""Aggregate selected runs into means and error bars, and list the missing runs.

Numbers are computed as in DomainBed: a cell is the mean over the available trials; a dataset's
average is taken over test domains within a trial, then over trials; an average of columns is the
mean of their unrounded means.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shiftproof.core.types import CROSS_ENTROPY
from shiftproof.sweeps.domainbed.names import algorithms_in_order, datasets_in_order
from shiftproof.sweeps.results import Run, RunKey, checked
from shiftproof.sweeps.selection import Selection, Selector
from shiftproof.sweeps.selection.base import best_draw

MISSING = "missing"
DIVERGED = "diverged"


class MissingRun(NamedTuple):
    """A run that a selector needs but cannot use, and why.

    ``reason`` is ``missing``, the status of a run that has not finished, or the selector's reason
    if the run did not measure what it reads.
    """

    dataset: str
    algorithm: str
    test_domains: tuple[str, ...]
    hparams_seed: int
    trial_seed: int
    reason: str


class Estimate(NamedTuple):
    """The mean over trials and the population standard deviation over √trials, in percent."""

    mean: float
    error: float
    trials: int


def estimate(accuracies: Collection[float]) -> Estimate | None:
    """Return the mean and error bar of accuracies in [0, 1], one per trial; None if empty.

    >>> estimate([0.25, 0.25, 0.75, 0.75])
    Estimate(mean=50.0, error=12.5, trials=4)
    """
    if not accuracies:
        return None
    values = np.asarray(list(accuracies))
    error = 100 * np.std(values) / math.sqrt(len(values))
    return Estimate(float(100 * np.mean(values)), float(error), len(values))


@dataclass(frozen=True)
class CellResults:
    """Results of an algorithm on one test domain: its selection in each expected trial."""

    selections: Mapping[int, Selection]
    trials: tuple[int, ...]
    missing: tuple[MissingRun, ...]

    @property
    def accuracies(self) -> dict[int, float]:
        """The reported accuracy of each trial that has one."""
        return {trial: chosen.accuracy for trial, chosen in self.selections.items()}

    @property
    def estimate(self) -> Estimate | None:
        """The mean over trials."""
        return estimate(self.accuracies.values())

    @property
    def incomplete(self) -> bool:
        """Whether runs are missing.  Diverged runs do not count as missing."""
        return any(run.reason != DIVERGED for run in self.missing)


@dataclass(frozen=True)
class DatasetResults:
    """Results on one dataset; ``cells`` is keyed by algorithm and position of the test domain."""

    dataset: str
    domains: tuple[str, ...]
    algorithms: tuple[str, ...]
    trials: tuple[int, ...]
    draws: tuple[int, ...]
    cells: Mapping[tuple[str, int], CellResults]

    @property
    def selected_runs(self) -> list[Run]:
        """The runs that the numbers come from."""
        return [chosen.run for cell in self.cells.values() for chosen in cell.selections.values()]

    @property
    def has_numbers(self) -> bool:
        """Whether there is a number at all."""
        return bool(self.selected_runs)

    @property
    def standalone(self) -> bool:
        """Whether all numbers come from standalone runs."""
        return all(run.standalone for run in self.selected_runs)

    @property
    def predicts_numbers(self) -> bool:
        """Whether the runs are regressions, whose accuracies are R²."""
        losses = {run.config.get("loss", CROSS_ENTROPY) for run in self.selected_runs}
        return not losses <= {CROSS_ENTROPY}

    @property
    def measure(self) -> str:
        """The name of the metric: accuracy, or R² for regression."""
        return "R²" if self.predicts_numbers else "accuracy"

    def row(self, algorithm: str) -> list[CellResults]:
        """Return the algorithm's cells, one per test domain."""
        return [self.cells[algorithm, position] for position in range(len(self.domains))]

    def row_average(self, algorithm: str) -> float | None:
        """Return the mean of the columns in percent, or None if a column has no number."""
        return mean_of_columns([cell.estimate for cell in self.row(algorithm)])

    def trial_averages(self, algorithm: str) -> dict[int, float]:
        """Return, for each trial, the mean over the test domains that have an accuracy."""
        by_trial: defaultdict[int, list[float]] = defaultdict(list)
        for cell in self.row(algorithm):
            for trial, accuracy in cell.accuracies.items():
                by_trial[trial].append(accuracy)
        return {trial: float(np.mean(by_trial[trial])) for trial in sorted(by_trial)}

    def average(self, algorithm: str) -> Estimate | None:
        """Return the mean over trials of the averages over test domains."""
        return estimate(self.trial_averages(algorithm).values())

    def covers(self, algorithm: str) -> bool:
        """Whether every test domain has a number."""
        return all(cell.selections for cell in self.row(algorithm))

    def complete(self, algorithm: str) -> bool:
        """Whether every test domain has a number in every trial, and no run is missing."""
        return all(
            len(cell.selections) == len(cell.trials) and not cell.incomplete
            for cell in self.row(algorithm)
        )


@dataclass(frozen=True)
class SelectionResults:
    """Results of a whole sweep under one selector."""

    selector: Selector
    algorithms: tuple[str, ...]
    datasets: tuple[DatasetResults, ...]

    @property
    def has_numbers(self) -> bool:
        """Whether there is a number at all."""
        return any(results.has_numbers for results in self.datasets)

    @property
    def measure(self) -> str:
        """The name of the metric."""
        return " or ".join(dict.fromkeys(data.measure for data in self.datasets))

    def average(self, algorithm: str) -> float | None:
        """Return the mean over datasets in percent, or None if a dataset has no number."""
        return mean_of_columns([results.average(algorithm) for results in self.datasets])

    def accuracies(self, algorithm: str) -> dict[tuple[str, int, int], float]:
        """Return the reported accuracies by dataset, test domain and trial."""
        return {
            (results.dataset, position, trial): accuracy
            for results in self.datasets
            for position, cell in enumerate(results.row(algorithm))
            for trial, accuracy in cell.accuracies.items()
        }


def mean_of_columns(columns: Sequence[Estimate | None]) -> float | None:
    """Return the mean of the unrounded means, or None if one is missing."""
    means = [column.mean for column in columns if column is not None]
    return sum(means) / len(means) if means and len(means) == len(columns) else None


def aggregate(
    outcomes: Sequence[Run], selector: Selector, expected: Collection[RunKey] | None = None
) -> SelectionResults:
    """Select a run in every cell of a sweep, and list the missing runs.

    ``expected`` are the planned runs.  By default, the full grid of the algorithms, trials and
    hyper-parameter seeds that occur is expected.
    """
    runs = {outcome.key: outcome for outcome in checked(outcomes)}
    keys = runs.keys() | set(expected or ())
    algorithms = algorithms_in_order({key.algorithm for key in keys})
    domains = {outcome.dataset: outcome.domains for outcome in outcomes}
    seeds = {(key.dataset, key.trial_seed, key.hparams_seed) for key in keys}
    datasets = []
    for name in datasets_in_order(domains):
        trials = {trial for dataset, trial, _ in seeds if dataset == name}
        draws = {draw for dataset, _, draw in seeds if dataset == name}
        seen = (tuple(sorted(trials)), tuple(sorted(draws)))
        grid = _Grid(name, domains[name], *seen, runs, expected)
        cells = {
            (algorithm, position): _cell(grid, selector, algorithm, position)
            for algorithm in algorithms
            for position in range(len(grid.domains))
        }
        results = DatasetResults(name, grid.domains, algorithms, grid.trials, grid.draws, cells)
        datasets.append(results)
    return SelectionResults(selector, algorithms, tuple(datasets))


class _Grid(NamedTuple):
    """The available and the expected runs of one dataset."""

    dataset: str
    domains: tuple[str, ...]
    trials: tuple[int, ...]
    draws: tuple[int, ...]
    runs: Mapping[RunKey, Run]
    expected: Collection[RunKey] | None

    def why_unused(self, key: RunKey) -> str:
        """Return why a selector cannot use a run; empty if it can, or if it was not planned."""
        if key in self.runs:
            status = self.runs[key].status
            return "" if status == "finished" else status
        return MISSING if self.expected is None or key in self.expected else ""


def _cell(grid: _Grid, selector: Selector, algorithm: str, test_domain: int) -> CellResults:
    held_out = [s for s in selector.needs.held_out(len(grid.domains)) if test_domain in s]
    selections: dict[int, Selection] = {}
    missing: list[MissingRun] = []
    for trial in grid.trials:
        needed = {
            draw: [RunKey(grid.dataset, algorithm, tests, draw, trial) for tests in held_out]
            for draw in grid.draws
        }
        runs = [grid.runs[k] for keys in needed.values() for k in keys if k in grid.runs]
        scored = selector.choose_steps(runs, test_domain)
        if best := best_draw(scored):
            selections[trial] = best
        for draw, keys in needed.items():
            reasons = {key: why for key in keys if (why := grid.why_unused(key))}
            if not reasons and draw not in scored:
                available = [key for key in keys if key in grid.runs]
                reasons = {key: selector.why_unscored(grid.runs[key]) for key in available}
            for (dataset, name, tests, _, _), why in reasons.items():
                names = tuple(grid.domains[position] for position in tests)
                missing.append(MissingRun(dataset, name, names, draw, trial, why))
    return CellResults(selections, grid.trials, tuple(missing))
