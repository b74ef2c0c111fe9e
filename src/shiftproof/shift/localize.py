"""Localize shifts: between which domains, and in which features."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_expit

from shiftproof.information import Matching, match_dimensions
from shiftproof.shift.diagnosis import MovedFeature, Pair
from shiftproof.shift.labels import Labels
from shiftproof.statistics.sample import Floats

# The draws of the test, and the limit of its cost: permutations × samples × features.
PERMUTATIONS, MATCHING_WORK = 999, 5e8


def pairs_of(labels: Labels, matched: Matching, domains: Sequence[str]) -> tuple[Pair, ...]:
    """Return every pair of domains, in their order."""
    sample, posteriors = labels.sample, labels.posteriors
    log_prior = np.log(sample.shares)
    by_input, by_both = posteriors.domain - log_prior, posteriors.domain_given_label - log_prior
    members = [np.flatnonzero(sample.d == domain) for domain in range(sample.domains)]

    def odds(of: Floats, a: int, b: int) -> Floats:
        """Return the log odds of the right domain against the other, for the samples of both."""
        right = (of[members[a], a] - of[members[a], b], of[members[b], b] - of[members[b], a])
        return np.concatenate(right)

    pairs = []
    for row, (a, b) in enumerate(combinations(range(sample.domains), 2)):
        sizes = [len(members[a]), len(members[b])]
        weights = np.repeat(0.5 / np.array(sizes), sizes)
        inputs, both = odds(by_input, a, b), odds(by_both, a, b)
        information = float(np.log(2) + weights @ log_expit(inputs))
        pairs.append(
            Pair(
                domains[a],
                domains[b],
                told_apart=_told_apart(inputs, weights),
                told_apart_with_label=_told_apart(both, weights),
                information=max(information, 0.0),
                w1=float(matched.w1[row].mean()),
                pdm=float(matched.pdm[row].mean()),
                labels=labels.apart(a, b),
            )
        )
    return tuple(pairs)


def _told_apart(odds: Floats, weights: Floats) -> float:
    """Return the share of right answers; a tie counts as half right."""
    return float(weights @ ((odds > 0) + 0.5 * (odds == 0)))


def match(x: Floats, d: ArrayLike, seed: int) -> Matching:
    """Compare every feature between all pairs of domains, on as many samples as time allows."""
    codes = np.asarray(d)
    most = int(MATCHING_WORK / (PERMUTATIONS * max(x.shape[1], 1)))
    rows = stratified(codes, max(most, 100 * len(np.unique(codes))), seed)
    return match_dimensions(x[rows], codes[rows], seed=seed, permutations=PERMUTATIONS)


def moved_features(
    matched: Matching, names: Sequence[str], domains: Sequence[str]
) -> tuple[MovedFeature, ...]:
    """Return the features, sorted by how far they move, largest first."""
    pairs = list(combinations(domains, 2))
    farthest = matched.w1.argmax(axis=0)
    mean = matched.w1.mean(axis=0)
    return tuple(
        MovedFeature(
            names[i],
            w1=float(mean[i]),
            most=float(matched.w1[farthest[i], i]),
            farthest=pairs[farthest[i]],
            p_value=float(matched.adjusted[i]),
        )
        for i in np.argsort(-mean, kind="stable")
    )


def stratified(d: ArrayLike, most: int, seed: int) -> np.ndarray:
    """Return the positions of at most `most` samples, in order.

    All domains keep equally many samples, or all they have: the largest domains lose samples first.

    >>> np.bincount(np.repeat([0, 1, 2], [5, 50, 500])[stratified(np.repeat([0, 1, 2],
    ...     [5, 50, 500]), 85, seed=0)]).tolist()
    [5, 40, 40]
    """
    codes = np.unique(np.asarray(d), return_inverse=True)[1]
    if len(codes) <= most:
        return np.arange(len(codes))
    sizes = np.bincount(codes)
    # What small domains leave of their quota goes to the larger ones.
    room, quota = most, 0
    for smaller, size in enumerate(np.sort(sizes)):
        quota = room // (len(sizes) - smaller)
        if size > quota:
            break
        room -= int(size)
    rows = []
    for domain, size in enumerate(sizes):
        rng = np.random.default_rng([seed, domain])
        rows.append(np.flatnonzero(codes == domain)[rng.permutation(size)[:quota]])
    return np.sort(np.concatenate(rows))
