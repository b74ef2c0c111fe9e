"""Which numbers can be compared: those over the same test domains.

A mean over fewer domains than the others' is not shown.
"""

from __future__ import annotations

from shiftproof.sweeps.aggregate import DatasetResults, Estimate, SelectionResults, mean_of_columns


def shown_domains(dataset: DatasetResults) -> list[int]:
    """Return the test domains that have runs, or should have."""
    return [
        position
        for position in range(len(dataset.domains))
        if any(
            (cell := dataset.cells[algorithm, position]).selections or cell.missing
            for algorithm in dataset.algorithms
        )
    ]


def covers(dataset: DatasetResults, algorithm: str) -> bool:
    """Whether every test domain that is shown has a number."""
    shown = shown_domains(dataset)
    return bool(shown) and all(dataset.cells[algorithm, at].selections for at in shown)


def complete(dataset: DatasetResults, algorithm: str) -> bool:
    """Whether the same holds in every trial, and no run is missing."""
    cells = [dataset.cells[algorithm, at] for at in shown_domains(dataset)]
    return all(len(c.selections) == len(c.trials) and not c.incomplete for c in cells)


def average(dataset: DatasetResults, algorithm: str) -> Estimate | None:
    """Return the mean over trials of the averages over all test domains that are shown."""
    return dataset.average(algorithm) if covers(dataset, algorithm) else None


def overall(results: SelectionResults, algorithm: str) -> float | None:
    """Return the mean over datasets in percent, or None if one has no number."""
    return mean_of_columns([average(dataset, algorithm) for dataset in results.datasets])


def best_first(results: SelectionResults) -> list[str]:
    """Return the algorithms by their average, those without one last and as they come."""
    averages = {name: overall(results, name) for name in results.algorithms}
    return sorted(
        averages, key=lambda name: -value if (value := averages[name]) is not None else 1.0
    )
