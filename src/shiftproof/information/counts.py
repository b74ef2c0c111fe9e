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
from scipy.special import entr  # type: ignore[import-untyped]

from shiftproof.statistics.sample import Ints, LogRatio, Sample, contingency


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
        return float(entr(table.sum(axis=dropped)).sum())

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
