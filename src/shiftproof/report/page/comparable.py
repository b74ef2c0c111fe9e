"""Which numbers may stand side by side: those over the same test domains.

A mean over fewer domains than the others' is no number to compare, so it is not given.
"""

from __future__ import annotations

import numpy as np

from shiftproof.sweeps.aggregate import DIVERGED, DatasetResults, Estimate, SelectionResults


def shown_domains(dataset: DatasetResults) -> list[int]:
    """Return the test domains that runs were made for, or planned for."""
    return [
        position
        for position in range(len(dataset.domains))
        if any(
            (cell := dataset.cells[algorithm, position]).selections or cell.holes
            for algorithm in dataset.algorithms
        )
    ]


def covers(dataset: DatasetResults, algorithm: str) -> bool:
    """Whether every test domain that is shown has a number."""
    shown = shown_domains(dataset)
    return bool(shown) and all(dataset.cells[algorithm, at].selections for at in shown)


def complete(dataset: DatasetResults, algorithm: str) -> bool:
    """Whether the same holds in every trial, and no run is yet to come."""
    cells = [dataset.cells[algorithm, at] for at in shown_domains(dataset)]
    yet_to_come = any(hole.reason != DIVERGED for cell in cells for hole in cell.holes)
    return not yet_to_come and all(len(c.selections) == len(c.trials) for c in cells)


def average(dataset: DatasetResults, algorithm: str) -> Estimate | None:
    """Return the mean over trials of the averages over all test domains that are shown."""
    return dataset.average(algorithm) if covers(dataset, algorithm) else None


def overall(results: SelectionResults, algorithm: str) -> float | None:
    """Return the mean over datasets in percent, or None if one has no number."""
    found = [average(dataset, algorithm) for dataset in results.datasets]
    means = [each.mean for each in found if each is not None]
    return sum(means) / len(means) if means and len(means) == len(found) else None


def overall_by_trial(results: SelectionResults, algorithm: str) -> dict[int, float]:
    """Return the mean over datasets in percent of each trial that has all test domains."""
    by_dataset = []
    for dataset in results.datasets:
        cells = [dataset.cells[algorithm, at].accuracies for at in shown_domains(dataset)]
        trials = set.intersection(*map(set, cells)) if cells else set()
        by_dataset.append({t: float(np.mean([cell[t] for cell in cells])) for t in trials})
    common = set.intersection(*map(set, by_dataset)) if by_dataset else set()
    return {t: 100 * float(np.mean([each[t] for each in by_dataset])) for t in sorted(common)}


def best_first(results: SelectionResults) -> list[str]:
    """Return the algorithms by their average, those without one last and as they come."""
    averages = {name: overall(results, name) for name in results.algorithms}
    return sorted(
        averages, key=lambda name: -value if (value := averages[name]) is not None else 1.0
    )
