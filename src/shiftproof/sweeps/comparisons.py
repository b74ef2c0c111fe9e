"""Paired comparisons of algorithms with a baseline, and their ranks over datasets.

The null hypothesis of the test: in each pair, the difference is equally likely to have either sign.
The ranks are those of the paper's Table 2.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from statistics import fmean, median
from typing import NamedTuple, TypeVar

import numpy as np

from shiftproof.core.errors import InvalidValue, UnknownName

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
