"""Distances between pairs of domains, one feature at a time, and a test of whether a feature moves.

For two domains a, b with quantile functions Q_a, Q_b of one feature,

    W1  = ∫ |Q_a(u) − Q_b(u)| du,        PDM = ¼ ∫ (Q_a(u) − Q_b(u))² du,

the Wasserstein distance and the order-2 matching penalty (`pdm`), both in units of the feature's
standard deviation.

The test permutes the domains of all rows at once, which leaves the distribution unchanged if no two
domains differ.  It compares every domain with all of them: the distance W1 between the binned
values (`BINS` equally filled bins) of a domain and of the pooled rows, standardised over the draws.
The statistic of a feature is its largest over domains, so D domains need D distances a draw, not
one for each pair.  The observed domains are one of the draws, so the p-values are exact.
`p_values` are for each feature alone; `adjusted` are corrected for all features (Westfall and
Young, 1993): the probability that any feature that moves between no two domains has a p-value this
low.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from shiftproof.core.cores import side_by_side
from shiftproof.core.errors import InvalidValue
from shiftproof.statistics.sample import Floats, Ints, as_table, checked, varying

BINS = 64
# The most numbers of a block of columns: distances over all draws, and shares in one draw.
BLOCK = 2e7


@dataclass(frozen=True)
class Matching:
    """Distances between every pair of domains in every feature, and a test of every feature.

    `pairs` contains the domains' original numbers.  `w1` and `pdm` are [pairs, features], and the
    p-values are [features].  A constant feature has distance 0 and p-value 1.
    """

    pairs: tuple[tuple[int, int], ...]
    w1: Floats
    pdm: Floats
    p_values: Floats
    adjusted: Floats
    permutations: int


def match_dimensions(x: ArrayLike, d: ArrayLike, *, seed: int, permutations: int = 999) -> Matching:
    """Compare features x [n, k] between all pairs of domains d [n]."""
    if permutations < 1:
        raise InvalidValue(f"`permutations` must be at least 1, not {permutations}")
    sample = checked(x, None, d, balanced=False)
    features = as_table(x)
    varies = varying(features)
    pairs = list(combinations(range(sample.domains), 2))
    w1, pdm = (np.zeros((len(pairs), features.shape[1])) for _ in range(2))
    ranked = [np.sort(sample.x[sample.d == t], axis=0) for t in range(sample.domains)]

    def compare(row: int, a: int, b: int) -> None:
        w1[row, varies], pdm[row, varies] = distances(ranked[a], ranked[b])

    list(side_by_side([partial(compare, row, a, b) for row, (a, b) in enumerate(pairs)]))
    p_values, adjusted = np.ones((2, features.shape[1]))
    p_values[varies], adjusted[varies] = _permutation_p(sample.x, sample.d, permutations, seed)
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


def _permutation_p(x: Floats, d: Ints, permutations: int, seed: int) -> tuple[Floats, Floats]:
    """Return the p-values of the columns, unadjusted and adjusted: [k], [k]."""
    columns, domains = x.shape[1], int(d.max()) + 1
    width = max(1, int(BLOCK / (domains * max(permutations, BINS))))
    observed, alone = np.empty(columns), np.empty(columns)
    largest = np.full(permutations + 1, -np.inf)
    for start in range(0, columns, width):
        block = slice(start, start + width)
        distance = _distances_of_draws(x[:, block], d, domains, permutations, seed)
        # Standardise over all draws including the observed one, so that they stay exchangeable.
        spread = np.maximum(distance.std(axis=0), 1e-12)
        moved = ((distance - distance.mean(axis=0)) / spread).max(axis=1)
        observed[block] = moved[0] - 1e-6
        alone[block] = (moved >= observed[block]).mean(axis=0)
        largest = np.maximum(largest, moved.max(axis=1))
    return alone, (largest[:, None] >= observed).mean(axis=0)


def _distances_of_draws(
    x: Floats, d: Ints, domains: int, permutations: int, seed: int
) -> np.ndarray:
    """Return W1 between each domain and all rows, in bins: [draws, domains, columns].

    The first draw has the observed domains; the others depend only on the seed.
    """
    bins, steps = _bins(x)
    shape = (domains, x.shape[1], BINS)
    sizes = np.bincount(d)[:, None, None]
    pooled = np.bincount(bins.ravel(), minlength=shape[1] * BINS).reshape(shape[1:]) / len(d)
    rng = np.random.default_rng(seed)
    distance = np.empty((permutations + 1, *shape[:2]), dtype=np.float32)
    for draw in range(permutations + 1):
        drawn = rng.permutation(d) if draw else d
        cells = (drawn * (shape[1] * BINS))[:, None] + bins
        shares = np.bincount(cells.ravel(), minlength=np.prod(shape)).reshape(shape) / sizes
        gap = np.abs(np.cumsum(shares - pooled, axis=2)[:, :, :-1])
        distance[draw] = np.einsum("tkb,kb->tk", gap, steps)
    return distance


def _bins(values: Floats) -> tuple[Ints, Floats]:
    """Return the bin of each value [n, k], numbered over all columns, and the steps between means.

    The bins of the sorted values are equally filled; tied values are in the bin of the first of
    them.
    """
    n, columns = values.shape
    order = np.argsort(values, axis=0, kind="stable")
    ranked = np.take_along_axis(values, order, axis=0)
    first = (np.arange(n) * BINS // n)[:, None]
    fresh = np.diff(ranked, axis=0, prepend=-np.inf) > 0
    first = np.maximum.accumulate(np.where(fresh, first, 0), axis=0)
    bins = np.empty((n, columns), dtype=np.intp)
    np.put_along_axis(bins, order, first, axis=0)
    bins += np.arange(columns) * BINS
    counts = np.bincount(bins.ravel(), minlength=columns * BINS).reshape(columns, BINS)
    sums = np.bincount(bins.ravel(), values.ravel(), minlength=columns * BINS)
    means = sums.reshape(columns, BINS) / np.maximum(counts, 1)
    # An empty bin gets the mean of the last non-empty one before it, so its step is 0.
    filled = np.maximum.accumulate(np.where(counts > 0, np.arange(BINS), 0), axis=1)
    return bins, np.diff(np.take_along_axis(means, filled, axis=1), axis=1)
