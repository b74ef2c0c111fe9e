"""Mutual information from counts, for a variable with few distinct values.

With p_d(a) the share of value a in domain d, π_d the weights and p̄ = Σ_d π_d p_d,

    I(A;D) = Σ_d π_d Σ_a p_d(a) log p_d(a) / p̄(a).

The plug-in estimate from counts is biased upwards.  To second order, for fixed domain sizes n_d,

    bias = ½ Σ_d π_d (K_d − 1) / n_d − ½ Σ_a Σ_d π_d² p_d(a) (1 − p_d(a)) / (n_d p̄(a)),

with K_d the number of values seen in d: the correction of Miller (1955), for weighted domains.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats  # type: ignore[import-untyped]

from shiftproof.information.sample import Floats, Ints, LogRatio, Sample


def mutual_information(
    joint: ArrayLike, one: Sequence[int], other: Sequence[int], given: Sequence[int] = ()
) -> float:
    """Return I(A;B|C) in nats from a table of probabilities; A, B and C are sets of its axes.

    >>> bool(mutual_information([[0.5, 0.0], [0.0, 0.5]], [0], [1]) == np.log(2))
    True
    """
    table = np.asarray(joint, dtype=float)

    def entropy(*axes: int) -> float:
        dropped = tuple(axis for axis in range(table.ndim) if axis not in axes)
        return float(special.entr(table.sum(axis=dropped)).sum())

    value = entropy(*one, *given) + entropy(*other, *given)
    value -= entropy(*one, *other, *given) + entropy(*given)
    return max(value, 0.0)  # rounding can make it negative


def information(codes: Ints, sample: Sample) -> LogRatio:
    """Return log p_d(a)/p̄(a) for each sample's value and domain, with a bias correction.

    codes [n] number the values of A from 0.
    """
    counts = contingency(codes, sample.d).astype(float)
    sizes = counts.sum(axis=0)
    within = counts / sizes
    mixed = within @ sample.shares
    used = mixed > 0
    # Gaps in the codes are values without samples, which contribute nothing.
    mixed = np.where(used, mixed, 1)
    spread = (sample.shares**2 / sizes * within * (1 - within)).sum(axis=1) / mixed
    seen = (counts > 0).sum(axis=0)
    bias = ((sample.shares * (seen - 1) / sizes).sum() - spread.sum()) / 2
    return LogRatio(np.log(within[codes, sample.d] / mixed[codes]), -float(bias))


def independence(codes: Ints, sample: Sample, permutations: int, seed: int) -> float | None:
    """Return the p-value of "A and D are independent" by permuting the domains."""
    return conditional_independence(codes, np.zeros_like(codes), sample, permutations, seed)


def conditional_independence(
    codes: Ints, given: Ints, sample: Sample, permutations: int, seed: int
) -> float | None:
    """Return the p-value of "A and D are independent given B", permuting domains within each b.

    The test is exact: given b and under the hypothesis, all assignments of domains to samples are
    equally likely.  The statistic is the likelihood ratio G = 2n·Î(A;D|B).  None if `permutations`
    is 0.
    """
    if not permutations:
        return None
    rng = np.random.default_rng([seed, 1])
    observed, null = 0.0, np.zeros(permutations)
    for value in np.unique(given):
        members = given == value
        table = contingency(codes[members], sample.d[members])
        table = table[table.any(axis=1)][:, table.any(axis=0)]
        if min(table.shape) < 2:
            continue
        drawn = stats.random_table(table.sum(axis=1), table.sum(axis=0)).rvs(
            permutations, random_state=rng
        )
        observed += float(_sum_of_logs(table))
        null += _sum_of_logs(drawn)
    return p_value(observed, null)


def p_value(observed: float, null: Floats) -> float:
    """Return the share of draws, including the observed one, that are at least as extreme."""
    # Values that differ only by rounding count as ties.
    as_extreme = null >= observed - 1e-9 * max(1.0, abs(observed))
    return float((1 + as_extreme.sum()) / (1 + len(null)))


def contingency(codes: Ints, d: Ints) -> Ints:
    """Return the counts of each value in each domain: [values, domains]."""
    domains = int(d.max()) + 1
    flat = np.bincount(codes * domains + d, minlength=(int(codes.max()) + 1) * domains)
    counts: Ints = flat.reshape(-1, domains)
    return counts


def pair_codes(first: Ints, second: Ints) -> Ints:
    """Return a code [n] for each pair of codes, numbering the pairs that occur from 0."""
    both = first * (int(second.max()) + 1) + second
    codes: Ints = np.unique(both, return_inverse=True)[1].astype(np.intp)
    return codes


def _sum_of_logs(tables: Ints) -> Floats:
    """Return Σ n log n over the cells, the only part of G that varies for fixed margins."""
    logs = np.log(np.maximum(tables, 1))
    return np.asarray((tables * logs).sum(axis=(-2, -1)))
