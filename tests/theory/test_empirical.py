"""Finite samples: learners enumerated over every sample they can meet (Theorems A.18, A.19)."""

from __future__ import annotations

import numpy as np
import pytest
from known_families import DiscreteFamily, Learning

from shiftproof.theory import (
    TailBound,
    empirical_gap,
    empirical_gap_to_average,
    expected_empirical_gap,
    expected_empirical_gap_wasserstein,
)

ROUNDING = 1e-9
LABELS = np.array([[0], [1]])


def coins(*chances: float) -> DiscreteFamily:
    within = np.stack([1 - np.array(chances), chances], axis=1)
    return DiscreteFamily(within[:, None, :] / len(chances))


def learner(family: DiscreteFamily, domains: int, samples: int, seed: int) -> Learning:
    rng = np.random.default_rng(seed)
    table = rng.gamma(0.1 if seed % 3 else 5.0, size=(2,) * (domains * samples) + (2,)) + 1e-9
    table /= table.sum(axis=-1, keepdims=True)
    return Learning(family, LABELS, lambda z: table[tuple(z.ravel())], domains, samples)


def memoriser(family: DiscreteFamily, domains: int, samples: int) -> Learning:
    """Say the commoner label, half and half on a tie."""

    def learn(z: np.ndarray) -> np.ndarray:
        ones = z.mean()
        return np.array([0.5, 0.5]) if ones == 0.5 else np.eye(2)[int(ones > 0.5)]

    return Learning(family, LABELS, learn, domains, samples)


SHAPES = [(1, 1), (1, 3), (2, 1), (2, 2), (3, 1)]
FAMILIES = [coins(0.5), coins(0, 1), coins(0.2, 0.4), coins(0.0, 0.5, 1.0), coins(0.01, 0.99)]
LEARNINGS = [
    *[memoriser(family, m, n) for family in FAMILIES for m, n in SHAPES],
    *[learner(family, m, n, seed) for family in FAMILIES for m, n in SHAPES for seed in range(4)],
]


def per_sample(learning: Learning) -> list[list[float]]:
    """I(W;Z_j^i|D_i)."""
    return [
        [
            learning.information_about(learning.sample_axis(i, j), given=[i])
            for j in range(learning.samples)
        ]
        for i in range(learning.domains)
    ]


def per_domain(learning: Learning) -> list[float]:
    return [learning.information_about(i) for i in range(learning.domains)]


def test_theorem_A_18_bounds_the_expected_gap() -> None:
    for learning in LEARNINGS:
        chance, empirical, _, average = learning.empirical_risks()
        bound = expected_empirical_gap(per_domain(learning), per_sample(learning), 1.0).value
        assert abs(chance @ (empirical - average)) <= bound + ROUNDING


def test_theorem_A_18_expected_gap_is_nearly_reached() -> None:
    """One domain with a fair label, one sample, and a learner that leans to it."""
    for strength in (0.01, 0.2):
        odds = np.array([[1 + strength, 1 - strength], [1 - strength, 1 + strength]]) / 2
        learning = Learning(coins(0.5), LABELS, lambda z, odds=odds: odds[z[0, 0]])
        chance, empirical, _, average = learning.empirical_risks()
        actual = chance @ (average - empirical)
        bound = expected_empirical_gap(per_domain(learning), per_sample(learning), 1.0).value
        assert 1 <= bound / actual < 1 + strength**2


def holds(tail: TailBound, gaps: np.ndarray, chance: np.ndarray) -> None:
    for gap in np.unique(gaps[gaps > 1e-6]):
        assert chance[gaps >= gap - 1e-15].sum() <= tail.chance(gap) + ROUNDING


def test_theorem_A_18_corrected_holds_for_the_training_domains() -> None:
    for learning in LEARNINGS:
        m, n = learning.domains, learning.samples
        chance, empirical, source, _ = learning.empirical_risks()
        samples = range(m, learning.hypothesis_axis)
        given = learning.information_about(*samples, given=range(m))
        assert given <= learning.information_about(*samples) + ROUNDING
        holds(empirical_gap(given, 1.0, m, n), np.abs(empirical - source), chance)
        square = empirical_gap(given, 1.0, m, n).scale ** 2
        assert chance @ (empirical - source) ** 2 <= square


def test_theorem_A_18_corrected_holds_for_the_average_domain() -> None:
    for learning in LEARNINGS:
        chance, empirical, _, average = learning.empirical_risks()
        samples = range(learning.domains, learning.hypothesis_axis)
        known = learning.information_about(*samples)
        tail = empirical_gap_to_average(known, 1.0, learning.domains)
        holds(tail, np.abs(empirical - average), chance)
        assert chance @ (empirical - average) ** 2 <= tail.scale**2


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 2), (1, 5)])
def test_theorem_A_18_second_moment_is_loose_by_log_81_without_learning(m: int, n: int) -> None:
    """A fixed hypothesis on a fair label: 1/(4mn), against log 3/(mn)."""
    learning = Learning(coins(0.5), LABELS[:1], lambda _: np.ones(1), m, n)
    chance, empirical, source, _ = learning.empirical_risks()
    actual = chance @ (empirical - source) ** 2
    assert empirical_gap(0.0, 1.0, m, n).scale ** 2 / actual == pytest.approx(np.log(81))


def test_theorem_A_18_as_printed_fails_for_many_samples_of_one_domain() -> None:
    """A fixed hypothesis and opposite domains: the gap is ½ however many samples there are.

    The printed bound falls with mn; the corrected ones fall with m, or speak of L_s.
    """
    m, n = 1, 6
    learning = Learning(coins(0, 1), LABELS[:1], lambda _: np.ones(1), m, n)
    chance, empirical, source, average = learning.empirical_risks()
    assert chance[np.abs(empirical - average) >= 0.5].sum() == pytest.approx(1)
    as_printed = empirical_gap(0.0, 1.0, m, n).chance(0.5)
    assert as_printed == pytest.approx(4 * np.log(3) / 6)
    assert as_printed < 0.75
    assert empirical_gap_to_average(0.0, 1.0, m).chance(0.5) == 1
    assert empirical == pytest.approx(source)


def variations(learning: Learning) -> tuple[list[float], list[list[float]]]:
    """E TV(P_{W|D_i}, P_W) and E TV(P_{W|D_i,Z_j}, P_{W|D_i})."""
    to_all, to_domain = [], []
    last = learning.hypothesis_axis
    for i in range(learning.domains):
        by_domain = learning.given_domain(i)
        moved = np.abs(by_domain - learning.hypotheses).sum(axis=1) / 2
        to_all.append(float(learning.family.weights @ moved))
        to_domain.append([])
        for j in range(learning.samples):
            kept = (i, learning.sample_axis(i, j), last)
            table = learning.joint.sum(axis=tuple(a for a in range(last) if a not in kept))
            weight = table.sum(axis=2)
            moved = np.abs(table - weight[:, :, None] * by_domain[:, None, :]).sum() / 2
            to_domain[-1].append(float(moved))
    return to_all, to_domain


def test_theorem_A_19_bounds_the_expected_gap() -> None:
    """In the discrete metric, with 0-1 loss: β′ = 1."""
    for learning in LEARNINGS:
        chance, empirical, _, average = learning.empirical_risks()
        bound = expected_empirical_gap_wasserstein(*variations(learning), 1.0).value
        assert abs(chance @ (empirical - average)) <= bound + ROUNDING


def test_theorem_A_19_is_reached_and_below_theorem_A_18() -> None:
    learning = memoriser(coins(0.5), 1, 1)
    chance, empirical, _, average = learning.empirical_risks()
    bound = expected_empirical_gap_wasserstein(*variations(learning), 1.0).value
    assert bound == pytest.approx(chance @ (average - empirical))
    assert bound == pytest.approx(0.5)
    for other in LEARNINGS:
        transport = expected_empirical_gap_wasserstein(*variations(other), 1.0).value
        shared = expected_empirical_gap(per_domain(other), per_sample(other), 1.0).value
        assert transport <= shared + ROUNDING
