"""Ranks of algorithms over datasets, as in the paper's Table 2."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from statistics import fmean, median
from typing import NamedTuple, TypeVar

from shiftproof.core.errors import InvalidValue

Name = TypeVar("Name", bound=Hashable)


class Ranks(NamedTuple):
    """The mean, median and worst of an algorithm's ranks over datasets."""

    mean: float
    median: float
    worst: int


def competition_ranks(values: Sequence[float]) -> list[int]:
    """Return the rank of each value, 1 for the highest; ties share the smallest rank (1, 1, 3).

    >>> competition_ranks([98.1, 97.5, 98.1, 98.0])
    [1, 4, 1, 3]
    """
    if any(value != value for value in values):  # no value compares higher: NaN would rank first
        raise InvalidValue("NaN has no rank")
    return [1 + sum(other > value for other in values) for value in values]


def rank_algorithms(accuracies: Mapping[Name, Mapping[str, float]]) -> dict[Name, Ranks]:
    """Return the ranks of each algorithm, given its accuracy on each dataset.

    Each dataset ranks the algorithms that have an accuracy on it.  The result leaves out algorithms
    without an accuracy on every dataset.
    """
    datasets = sorted({dataset for row in accuracies.values() for dataset in row})
    ranks: dict[Name, list[int]] = {name: [] for name in accuracies}
    for dataset in datasets:
        present = [name for name, row in accuracies.items() if dataset in row]
        values = [accuracies[name][dataset] for name in present]
        for name, rank in zip(present, competition_ranks(values), strict=True):
            ranks[name].append(rank)
    return {
        name: Ranks(fmean(row), median(row), max(row))
        for name, row in ranks.items()
        if row and len(row) == len(datasets)
    }
