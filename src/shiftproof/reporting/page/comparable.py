"""Averages that can be compared because they cover the same test domains.

A mean over fewer test domains than the others is not shown.
"""

from __future__ import annotations

import math

from shiftproof.sweeps.aggregate import DatasetResults, Estimate, SelectionResults, mean_of_columns


def shown_domains(dataset: DatasetResults) -> list[int]:
    """Return the positions of the test domains that have runs, or should have."""
    return [
        position
        for position in range(len(dataset.domains))
        if any(
            (cell := dataset.cells[algorithm, position]).selections or cell.missing
            for algorithm in dataset.algorithms
        )
    ]


def covers(dataset: DatasetResults, algorithm: str) -> bool:
    """Return whether the algorithm has a number on every shown test domain."""
    shown = shown_domains(dataset)
    return bool(shown) and all(dataset.cells[algorithm, at].selections for at in shown)


def complete(dataset: DatasetResults, algorithm: str) -> bool:
    """Return whether the algorithm lacks no trial and no run on the shown test domains."""
    cells = [dataset.cells[algorithm, at] for at in shown_domains(dataset)]
    return all(len(c.selections) == len(c.trials) and not c.incomplete for c in cells)


def average(dataset: DatasetResults, algorithm: str) -> Estimate | None:
    """Return the mean over trials of the averages over all shown test domains."""
    return dataset.average(algorithm) if covers(dataset, algorithm) else None


def overall(results: SelectionResults, algorithm: str) -> float | None:
    """Return the mean over datasets in percent, or None if one has no number."""
    return mean_of_columns([average(dataset, algorithm) for dataset in results.datasets])


def best_first(results: SelectionResults) -> list[str]:
    """Return the algorithms by average, the best first; those without one come last."""
    averages = {name: overall(results, name) for name in results.algorithms}
    return sorted(
        averages, key=lambda name: -value if (value := averages[name]) is not None else math.inf
    )
