"""Distances between pairs of domains, one feature at a time.

For two domains a, b with quantile functions Q_a, Q_b of one feature,

    W1  = ∫ |Q_a(u) − Q_b(u)| du,        PDM = ¼ ∫ (Q_a(u) − Q_b(u))² du,

the Wasserstein distance and the order-2 matching penalty (`pdm`), both in units of the feature's
standard deviation.

The test permutes the domains within the pair, which leaves the distribution unchanged if a and b do
not differ.  The test statistic uses binned values (`BINS` equally filled bins of the pair's sorted
values), for the observed and the permuted domains alike, so the p-values are exact.  `p_values` are
for each feature alone; `adjusted` are corrected for all features of a pair (the probability that
any feature of a pair without shift has a p-value this low; Westfall and Young, 1993, with the
largest standardised distance).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array  # type: ignore[import-untyped]

from shiftproof.core.cores import side_by_side
from shiftproof.core.errors import InvalidValue
from shiftproof.statistics.sample import Floats, as_table, checked, varying

BINS = 64
# Permutations computed at a time; limits the memory to columns × BINS × this many numbers.
AT_ONCE = 50


@dataclass(frozen=True)
class Matching:
    """Distances between every pair of domains in every feature.

    `pairs` contains the domains' original numbers.  The arrays are [pairs, features]; a constant
    feature has distance 0 and p-value 1.
    """

    pairs: tuple[tuple[int, int], ...]
    w1: Floats
    pdm: Floats
    p_values: Floats
    adjusted: Floats
    permutations: int


def match_dimensions(x: ArrayLike, d: ArrayLike, *, seed: int, permutations: int = 100) -> Matching:
    """Compare features x [n, k] between all pairs of domains d [n]."""
    if permutations < 1:
        raise InvalidValue(f"`permutations` must be at least 1, not {permutations}")
    sample = checked(x, None, d, balanced=False)
    features = as_table(x)
    varies = varying(features)
    pairs = list(combinations(range(sample.domains), 2))
    shape = (len(pairs), features.shape[1])
    w1, pdm = np.zeros(shape), np.zeros(shape)
    p_values, adjusted = np.ones(shape), np.ones(shape)
    by_domain = [sample.x[sample.d == domain] for domain in range(sample.domains)]
    ranked = [np.sort(values, axis=0) for values in by_domain]

    def compare(row: int, a: int, b: int) -> None:
        w1[row, varies], pdm[row, varies] = distances(ranked[a], ranked[b])
        # Seeded by the sizes of the pair, so that the numbering of domains does not matter.
        rng = np.random.default_rng([seed, *sorted((len(by_domain[a]), len(by_domain[b])))])
        found = _permutation_p(by_domain[a], by_domain[b], permutations, rng)
        p_values[row, varies], adjusted[row, varies] = found

    list(side_by_side([partial(compare, row, a, b) for row, (a, b) in enumerate(pairs)]))
    named = tuple((sample.names[a], sample.names[b]) for a, b in pairs)
    return Matching(named, w1, pdm, p_values, adjusted, permutations)


def distances(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return W1 and PDM between the sorted columns of a [n, k] and b [l, k]: [k], [k]."""
    edges = np.unique(np.concatenate([np.arange(1, len(v) + 1) / len(v) for v in (a, b)]))
    # Edges that differ only by rounding leave a piece of width about 0, which has no effect.
    widths = np.diff(edges, prepend=0)
    middles = edges - widths / 2
    gap = np.abs(a[(middles * len(a)).astype(int)] - b[(middles * len(b)).astype(int)])
    return widths @ gap, widths @ gap**2 / 4


def _permutation_p(
    a: Floats, b: Floats, permutations: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return the p-values of the columns, unadjusted and adjusted: [k], [k]."""
    values = np.concatenate([a, b])
    bins, steps = _bins(values)
    first = np.zeros((len(values), permutations + 1), dtype=np.float32)
    # The first column is the observed pair.
    first[: len(a)] = 1
    first[:, 1:] = rng.permuted(first[:, 1:], axis=0)
    statistic = np.concatenate(
        [
            _binned_w1(bins, steps, first[:, start : start + AT_ONCE], len(a))
            for start in range(0, permutations + 1, AT_ONCE)
        ],
        axis=1,
    )
    # Standardise over all draws including the observed one, so that they stay exchangeable.
    spread = np.maximum(statistic.std(axis=1, keepdims=True), 1e-12)
    standard = (statistic - statistic.mean(axis=1, keepdims=True)) / spread
    largest = standard.max(axis=0, initial=-np.inf)
    observed = standard[:, :1] - 1e-6
    alone = (standard >= observed).mean(axis=1)
    together = (largest >= observed).mean(axis=1)
    return alone, together


def _bins(values: Floats) -> tuple[csr_array, Floats]:
    """Return the membership in bins [columns × BINS, n], and the steps between the bins' means.

    The bins of the sorted pooled values are equally filled; tied values are in the bin of the first
    of them.
    """
    n, columns = values.shape
    order = np.argsort(values, axis=0, kind="stable")
    ranked = np.take_along_axis(values, order, axis=0)
    place = (np.arange(n) * BINS // n)[:, None]
    fresh = np.diff(ranked, axis=0, prepend=-np.inf) > 0
    place = np.maximum.accumulate(np.where(fresh, place, 0), axis=0)
    bins = np.empty((n, columns), dtype=np.int32)
    np.put_along_axis(bins, order, place.astype(np.int32), axis=0)
    flat = bins + np.arange(columns, dtype=np.int32) * BINS
    counts = np.bincount(flat.ravel(), minlength=columns * BINS).reshape(columns, BINS)
    sums = np.bincount(flat.ravel(), values.ravel(), minlength=columns * BINS)
    means = sums.reshape(columns, BINS) / np.maximum(counts, 1)
    # An empty bin gets the mean of the last non-empty one before it, so its step is 0.
    filled = np.maximum.accumulate(np.where(counts > 0, np.arange(BINS), 0), axis=1)
    steps = np.diff(np.take_along_axis(means, filled, axis=1), axis=1)
    ones = np.ones(n * columns, dtype=np.float32)
    member = csr_array((ones, flat.ravel(), np.arange(n + 1) * columns), shape=(n, columns * BINS))
    return member.T, steps.astype(np.float32)


def _binned_w1(member: csr_array, steps: Floats, first: Floats, size: int) -> Floats:
    """Return Σ |F_a − F_b| · step over the bins, for each column and draw: [columns, draws]."""
    columns, draws = len(steps), first.shape[1]
    others = first.shape[0] - size
    # +1/n_a for the pair's first domain, −1/n_b for the second: sums are differences of shares.
    signed = first / size - (1 - first) / others
    shares = (member @ signed).reshape(columns, BINS, draws)
    gap = np.abs(np.cumsum(shares, axis=1)[:, :-1])
    return np.asarray(np.einsum("kbp,kb->kp", gap, steps))
