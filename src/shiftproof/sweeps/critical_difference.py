"""Mean ranks of algorithms over test domains, and which differences chance could explain.

Friedman's test asks whether all algorithms could be equivalent, Nemenyi's whether each pair could
be: mean ranks must differ by a critical difference (Demšar, 2006).  Both assume independent test
domains, but domains of one dataset are not: their runs share training data.  Nemenyi's verdict on
two algorithms depends on which others are ranked (Benavoli et al., 2016); the paired tests of
`comparisons` do not.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, studentized_range

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.sweeps.aggregate import SelectionResults

LEVEL = 0.05
# For two algorithms, use a paired test.
FEWEST_ALGORITHMS, FEWEST_BLOCKS = 3, 2
# Accuracies that differ only beyond these decimals are equal: they were summed in another order.
_DECIMALS = 9

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class RankComparison:
    """Mean ranks over ``blocks`` blocks, best first; rank 1 is the highest accuracy.

    ``statistic`` and ``p_value`` are Friedman's.  ``difference`` is the critical difference;
    ``groups`` are the largest sets of algorithms whose mean ranks differ by less.
    """

    mean_ranks: Mapping[str, float]
    blocks: int
    statistic: float
    p_value: float
    difference: float
    groups: tuple[tuple[str, ...], ...]


def critical_difference(algorithms: int, blocks: int) -> float:
    """Return the critical difference of two mean ranks in the Nemenyi test (Demšar, 2006).

    >>> round(critical_difference(5, 30), 3)  # q = 2.728
    1.114
    """
    q = studentized_range.ppf(1 - LEVEL, algorithms, math.inf) / math.sqrt(2)
    return float(q * math.sqrt(algorithms * (algorithms + 1) / (6 * blocks)))


def compare_ranks(accuracies: Mapping[str, Mapping[Key, float]]) -> RankComparison:
    """Rank the algorithms on each block; all must have the same blocks.

    Equal accuracies share the mean of their ranks.
    """
    names = list(accuracies)
    blocks = list(accuracies[names[0]]) if names else []
    if len(names) < FEWEST_ALGORITHMS or len(blocks) < FEWEST_BLOCKS:
        raise DataError(
            f"a comparison of ranks needs at least {FEWEST_ALGORITHMS} algorithms with results on"
            f" the same {FEWEST_BLOCKS} or more test domains; here {len(names)} have results on all"
            f" {len(blocks)}"
        )
    table = np.array([[accuracies[name][block] for name in names] for block in blocks])
    if not np.isfinite(table).all():
        raise InvalidValue("a comparison of ranks needs finite accuracies")
    table = table.round(_DECIMALS)
    means = rankdata(-table, axis=1).mean(0)
    if np.all(table == table[:, :1]):  # no difference at all: scipy would compute 0/0
        statistic, p_value = 0.0, 1.0
    else:
        statistic, p_value = map(float, friedmanchisquare(*table.T))
    order = sorted(range(len(names)), key=lambda at: (means[at], at))
    ranks = {names[at]: float(means[at]) for at in order}
    difference = critical_difference(len(names), len(blocks))
    return RankComparison(
        ranks, len(blocks), statistic, p_value, difference, tuple(_groups(ranks, difference))
    )


def compare_selected(results: SelectionResults) -> RankComparison:
    """Compare the ranks of the algorithms that have a number on every test domain of a sweep.

    A block is a test domain, and an accuracy is the mean over the trials that all of them have.
    """
    whole = [
        name for name in results.algorithms if all(data.covers(name) for data in results.datasets)
    ]
    accuracies: dict[str, dict[tuple[str, int], float]] = {name: {} for name in whole}
    for data in results.datasets:
        for position in range(len(data.domains)):
            cells = {name: data.cells[name, position].accuracies for name in whole}
            common = [t for t in data.trials if all(t in cell for cell in cells.values())]
            for name, cell in cells.items() if common else ():
                mean = float(np.mean([cell[trial] for trial in common]))
                accuracies[name][data.dataset, position] = mean
    return compare_ranks(accuracies)


def _groups(ranks: Mapping[str, float], difference: float) -> list[tuple[str, ...]]:
    """Return the maximal sets of two or more neighbours that differ by less than ``difference``."""
    names, values = list(ranks), list(ranks.values())
    groups: list[tuple[str, ...]] = []
    reached = 0
    for first, value in enumerate(values):
        end = max(at + 1 for at, other in enumerate(values) if other - value < difference)
        if end > max(reached, first + 1):  # not contained in the previous group
            groups.append(tuple(names[first:end]))
            reached = end
    return groups
