"""Paired comparisons of algorithms with a baseline, and their ranks over datasets.

The null hypothesis of the test: in each pair, the difference is equally likely to have either sign.
The ranks are those of the paper's Table 2.

Mean ranks over test domains show which differences chance could explain.  Friedman's test asks
whether all algorithms could be equivalent, Nemenyi's whether each pair could be: mean ranks must
differ by a critical difference (Demšar, 2006).  Both assume independent test domains, but domains
of one dataset are not: their runs share training data.  Nemenyi's verdict on two algorithms depends
on which others are ranked (Benavoli et al., 2016); the paired tests do not.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import NamedTuple, TypeVar

import numpy as np
import scipy  # its submodules are imported when they are used

from shiftproof.core.errors import DataError, InvalidValue, UnknownName
from shiftproof.sweeps.aggregate import SelectionResults

# Up to this many pairs, all sign assignments are enumerated.
MOST_ENUMERATED = 16
DRAWS = 100_000
# Assignments drawn at a time, to bound memory.
_BLOCK = 10_000

Key = TypeVar("Key", bound=Hashable)


class Comparison(NamedTuple):
    """Comparison of an algorithm with the baseline, over the pairs that both have.

    ``p_value`` is two-sided; ``corrected`` is the p-value after Holm's correction over all
    algorithms compared.
    """

    algorithm: str
    pairs: int
    difference: float
    p_value: float
    corrected: float


def sign_flip_p_values(
    rows: Sequence[Sequence[float]], seed: int = 0, draws: int = DRAWS
) -> list[float]:
    """Return for each row the share of sign assignments whose mean is at least as far from 0.

    Exact for rows of up to `MOST_ENUMERATED` differences.  For longer rows, it uses ``draws``
    random assignments and the observed one, which keeps the test valid (Phipson and Smyth, 2010).
    Rows of equal length share the same signs.

    >>> sign_flip_p_values([[1.0, 2.0, 3.0]])
    [0.25]
    """
    p_values = [0.0] * len(rows)
    for n in {len(row) for row in rows}:
        positions = [position for position, row in enumerate(rows) if len(row) == n]
        values = np.asarray([rows[position] for position in positions], dtype=float)
        if not np.isfinite(values).all():
            raise InvalidValue("a paired test needs finite differences")
        # Equal sums may differ by rounding.
        least = np.abs(values.sum(1)) - 1e-12 * np.abs(values).sum(1)
        extreme = np.zeros(len(positions))
        count = 0
        for signs in _signs(n, seed, draws):
            extreme += np.count_nonzero(np.abs(signs @ values.T) >= least, axis=0)
            count += len(signs)
        seen = 0 if n <= MOST_ENUMERATED else 1
        for position, number in zip(positions, extreme, strict=True):
            p_values[position] = float((seen + number) / (seen + count))
    return p_values


def _signs(n: int, seed: int, draws: int) -> Iterator[np.ndarray]:
    """Yield blocks of assignments [block, n] of 1 and −1: all of them, or random ones."""
    if n <= MOST_ENUMERATED:
        yield 1.0 - 2.0 * (np.arange(2**n)[:, None] >> np.arange(n) & 1)
        return
    generator = np.random.default_rng(seed)
    for start in range(0, draws, _BLOCK):
        yield 1.0 - 2.0 * generator.integers(2, size=(min(_BLOCK, draws - start), n))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for multiple comparisons (Holm, 1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for rank, position in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[position]))
        corrected[position] = highest
    return corrected


def compare_with_baseline(
    accuracies: Mapping[str, Mapping[Key, float]], baseline: str, seed: int = 0, draws: int = DRAWS
) -> list[Comparison]:
    """Compare every algorithm with ``baseline`` on shared keys (dataset, test domain, trial).

    Algorithms without a pair are left out.
    """
    if baseline not in accuracies:
        raise UnknownName("baseline of this sweep", baseline, accuracies)
    reference = accuracies[baseline]
    rows: list[tuple[str, list[float]]] = []
    for algorithm, values in accuracies.items():
        # In the baseline's order, so that drawn signs do not depend on the other algorithms.
        differences = [values[key] - reference[key] for key in reference if key in values]
        if algorithm != baseline and differences:
            rows.append((algorithm, differences))
    p_values = sign_flip_p_values([differences for _, differences in rows], seed, draws)
    return [
        Comparison(algorithm, len(differences), float(np.mean(differences)), p_value, corrected)
        for (algorithm, differences), p_value, corrected in zip(
            rows, p_values, holm(p_values), strict=True
        )
    ]


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


def rank_algorithms(accuracies: Mapping[Key, Mapping[str, float]]) -> dict[Key, Ranks]:
    """Return the ranks of each algorithm, given its accuracy on each dataset.

    Each dataset ranks the algorithms that have an accuracy on it.  The result leaves out algorithms
    without an accuracy on every dataset.
    """
    datasets = sorted({dataset for row in accuracies.values() for dataset in row})
    ranks: dict[Key, list[int]] = {name: [] for name in accuracies}
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


# --- mean ranks over test domains ---------------------------------------------------------------

LEVEL = 0.05
# For two algorithms, use a paired test.
FEWEST_ALGORITHMS, FEWEST_BLOCKS = 3, 2
# Accuracies that differ only beyond these decimals are equal: they were summed in another order.
_DECIMALS = 9


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
    q = scipy.stats.studentized_range.ppf(1 - LEVEL, algorithms, math.inf) / math.sqrt(2)
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
    means = scipy.stats.rankdata(-table, axis=1).mean(0)
    if np.all(table == table[:, :1]):  # no difference at all: scipy would compute 0/0
        statistic, p_value = 0.0, 1.0
    else:
        statistic, p_value = map(float, scipy.stats.friedmanchisquare(*table.T))
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
