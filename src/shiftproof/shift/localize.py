"""Localize shifts: between which domains, in which features, and in which classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr, log_expit  # type: ignore[import-untyped]

from shiftproof.information import Matching, match_dimensions
from shiftproof.information.contingency import contingency
from shiftproof.information.dimensions import distances
from shiftproof.information.sample import Floats, Sample
from shiftproof.shift.posteriors import Posteriors

# The cost limit of matching features: permutations × samples × features × (domains − 1).
MATCHING_WORK = 5e8
# Permutations per pair of domains: enough for a p-value of 0.025 adjusted for all pairs.
PER_PAIR = 40
FEWEST_PERMUTATIONS = 99


@dataclass(frozen=True)
class Pair:
    """Two domains, and how far apart they are.

    `told_apart` is the share of their samples that the classifiers assign to the right domain of
    the two (weighted equally; 0.5 is chance), and `told_apart_with_label` the same if they see
    the label too.  `information` is I(X;D) of the pair, at most log 2.  `w1` and `pdm` are mean
    distances of single features, in standard deviations and in their squares.  `labels` is the
    share of labels that would have to change to turn the proportions of one domain into those of
    the other; for numeric labels, it is their distance W1 in standard deviations.
    """

    first: str
    second: str
    told_apart: float
    told_apart_with_label: float
    information: float
    w1: float
    pdm: float
    labels: float


@dataclass(frozen=True)
class MovedFeature:
    """A feature, and its distance W1 in standard deviations, averaged over pairs of domains.

    `farthest` names the two domains between which it moves most, at the distance `most`.  `p_value`
    tests "it moves between no two domains", adjusted for all features and all pairs.
    """

    name: str
    w1: float
    most: float
    farthest: tuple[str, str]
    p_value: float


@dataclass(frozen=True)
class MovedClass:
    """A class: its share in each domain, and how far its inputs shift.

    `information` is I(X;D|Y = this class), and `within` is its share of the maximum.  Both are None
    if the class occurs in only one domain.
    """

    name: str
    shares: tuple[float, ...]
    information: float | None
    within: float | None


@dataclass(frozen=True)
class NumberLabel:
    """The numeric labels of one domain: mean, standard deviation and quartiles."""

    mean: float
    deviation: float
    low: float
    median: float
    high: float


def pairs_of(
    sample: Sample,
    by_input: Floats,
    by_both: Floats,
    labels: Callable[[int, int], float],
    matched: Matching,
    domains: Sequence[str],
) -> tuple[Pair, ...]:
    """Return every pair of domains, in their order.

    `by_input` and `by_both` are log q(d|x) and log q(d|x,y), [n, D] each; `labels` returns the
    distance between the labels of two domains.
    """
    log_prior = np.log(sample.shares)
    by_input, by_both = by_input - log_prior, by_both - log_prior
    members = [np.flatnonzero(sample.d == domain) for domain in range(sample.domains)]

    def odds(of: Floats, a: int, b: int) -> Floats:
        """Return the log odds of the right domain against the other, for the samples of both."""
        right = (of[members[a], a] - of[members[a], b], of[members[b], b] - of[members[b], a])
        return np.concatenate(right)

    pairs = []
    for row, (a, b) in enumerate(combinations(range(sample.domains), 2)):
        weights = np.repeat([0.5, 0.5], [len(members[a]), len(members[b])])
        weights /= np.repeat([len(members[a]), len(members[b])], [len(members[a]), len(members[b])])
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
                labels=labels(a, b),
            )
        )
    return tuple(pairs)


def _told_apart(odds: Floats, weights: Floats) -> float:
    """Return the share of right answers; a tie counts as half right."""
    return float(weights @ ((odds > 0) + 0.5 * (odds == 0)))


def classes_apart(sample: Sample) -> Callable[[int, int], float]:
    """Return a function of two domains: the distance between their class shares."""
    shares = class_shares(sample)
    return lambda a, b: float(np.abs(shares[a] - shares[b]).sum() / 2)


def numbers_apart(sample: Sample, y: Floats) -> Callable[[int, int], float]:
    """Return a function of two domains: the distance W1 of their standardised labels y [n]."""
    ranked = [np.sort(y[sample.d == domain])[:, None] for domain in range(sample.domains)]
    return lambda a, b: float(distances(ranked[a], ranked[b])[0][0])


def number_labels(sample: Sample, y: Floats, mean: float, unit: float) -> tuple[NumberLabel, ...]:
    """Summarise the labels of each domain, from standardised y [n]."""
    found = []
    for domain in range(sample.domains):
        own = mean + unit * y[sample.d == domain]
        low, middle, high = (float(q) for q in np.quantile(own, (0.25, 0.5, 0.75)))
        found.append(NumberLabel(float(own.mean()), float(own.std(ddof=1)), low, middle, high))
    return tuple(found)


def class_shares(sample: Sample) -> Floats:
    """Return the share of each class in each domain: [domains, classes]."""
    counts = contingency(sample.y, sample.d)
    return np.asarray((counts / counts.sum(axis=0)).T)


def match(x: Floats, d: ArrayLike, seed: int) -> Matching:
    """Compare every feature between all pairs of domains, on as many samples as time allows.

    Many pairs need many permutations, because p-values are adjusted for all pairs.
    """
    codes = np.asarray(d)
    count = len(np.unique(codes))
    permutations = max(FEWEST_PERMUTATIONS, PER_PAIR * (count * (count - 1) // 2) - 1)
    cost = permutations * (count - 1) * max(x.shape[1], 1)
    rows = stratified(codes, max(int(MATCHING_WORK / cost), 100 * count), seed)
    return match_dimensions(x[rows], codes[rows], seed=seed, permutations=permutations)


def moved_features(
    matched: Matching, names: Sequence[str], domains: Sequence[str]
) -> tuple[MovedFeature, ...]:
    """Return the features, sorted by how far they move, largest first."""
    pairs = list(combinations(domains, 2))
    farthest = matched.w1.argmax(axis=0)
    adjusted = np.minimum(matched.adjusted.min(axis=0) * len(pairs), 1.0)
    mean = matched.w1.mean(axis=0)
    return tuple(
        MovedFeature(
            names[i],
            w1=float(mean[i]),
            most=float(matched.w1[farthest[i], i]),
            farthest=pairs[farthest[i]],
            p_value=float(adjusted[i]),
        )
        for i in np.argsort(-mean, kind="stable")
    )


def moved_classes(
    sample: Sample, found: Posteriors, classes: Sequence[str]
) -> tuple[MovedClass, ...]:
    """Return the classes, in their order."""
    shares = class_shares(sample)
    by_both = found.domain_given_label(sample.y)
    moved = []
    for label, name in enumerate(classes):
        rows = np.flatnonzero(sample.y == label)
        weights = sample.weights[rows] / sample.weights[rows].sum()
        domains = sample.d[rows]
        prior = np.bincount(domains, weights, minlength=sample.domains)
        most = float(entr(prior).sum())
        information = within = None
        if (prior > 0).sum() > 1:
            ratio = by_both[rows, domains] - np.log(prior[domains])
            information = float(np.clip(weights @ ratio, 0, most))
            within = information / most
        moved.append(MovedClass(name, tuple(shares[:, label].tolist()), information, within))
    return tuple(moved)


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
    for place, size in enumerate(np.sort(sizes)):
        quota = room // (len(sizes) - place)
        if size > quota:
            break
        room -= int(size)
    kept = []
    for domain, size in enumerate(sizes):
        rng = np.random.default_rng([seed, domain])
        kept.append(np.flatnonzero(codes == domain)[rng.permutation(size)[:quota]])
    return np.sort(np.concatenate(kept))
