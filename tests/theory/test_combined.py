"""Training and test domains together, every learner enumerated (Proposition A.12, Equation (3))."""

from __future__ import annotations

import numpy as np
import pytest
from known_families import DiscreteFamily, Learning
from scipy import optimize

from shiftproof.theory import combined_gap, source_gap, split_chance, target_gap_representation

ROUNDING = 1e-9
SPLITS = (0.05, 0.3, 0.5, 0.9)


def learnings() -> list[Learning]:
    """Random learners on random, on nearly equal and on opposite domains."""
    cases = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        within = rng.gamma(0.3 if seed % 3 else 30.0, size=(2, 2, 2)) + 1e-9
        within /= within.sum(axis=(1, 2), keepdims=True)
        if seed % 2:  # labels without noise: L* = 0
            within = within.sum(axis=2, keepdims=True) * [1.0, 0.0]
        family = DiscreteFamily(rng.dirichlet([1, 1])[:, None, None] * within)
        m = 1 + seed % 2
        table = rng.gamma(0.1 if seed % 5 else 10.0, size=(4,) * m + (4,)) + 1e-9
        table /= table.sum(axis=-1, keepdims=True)
        hypotheses = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
        cases.append(Learning(family, hypotheses, lambda z, t=table: t[tuple(z[:, 0])], m))
    return cases


LEARNINGS = learnings()


def source_and_target(learning: Learning) -> tuple[np.ndarray, ...]:
    """P, L_s, L_t and L, for a test domain independent of everything."""
    weights = learning.family.weights
    table = learning.joint.sum(axis=tuple(range(learning.domains, learning.hypothesis_axis)))
    cells = np.array(list(np.ndindex(table.shape)))
    chance, source, average = learning.source_risks()
    target = learning.risks[cells[:, -1]]  # [cells, test domain]
    shape = target.shape
    return (
        (chance[:, None] * weights).ravel(),
        np.broadcast_to(source[:, None], shape).ravel(),
        target.ravel(),
        np.broadcast_to(average[:, None], shape).ravel(),
    )


def quantities(learning: Learning) -> tuple[list[float], float, float, float]:
    family = learning.family
    informations = [learning.information_about(i) for i in range(learning.domains)]
    noise = float(family.risks(family.best_predictor()) @ family.weights)
    return informations, family.covariate_shift, 1.0, noise


def test_proposition_A_12_splits_the_chance_of_a_gap() -> None:
    for learning in LEARNINGS:
        chance, source, target, average = source_and_target(learning)
        gaps = np.abs(source - target)
        for gap in np.unique(gaps[gaps > 1e-6]):
            actual = chance[gaps >= gap - 1e-15].sum()
            for split in SPLITS:
                near = np.abs(source - average) >= split * gap - 1e-12
                far = np.abs(target - average) >= (1 - split) * gap - 1e-12
                halves = chance[near].sum() + chance[far].sum()
                assert actual <= halves + ROUNDING


def test_proposition_A_12_adds_two_tail_bounds() -> None:
    informations, covariate_shift, bound, noise = [0.02], 0.02, 1.0, 0.0
    target = target_gap_representation(covariate_shift, bound, noise)
    source = source_gap(informations, bound, target.scale)  # 0.2 and 0.1
    assert split_chance(source, target, 2.0, 0.5) == pytest.approx(0.3)
    assert split_chance(source, target, 2.0, 0.25) == pytest.approx(0.4 + 0.1 / 1.5)
    assert split_chance(source, target, 0.1, 0.5) == 1.0


def test_equation_3_is_the_sum_of_its_halves() -> None:
    for learning in LEARNINGS:
        informations, shift, bound, noise = quantities(learning)
        target = target_gap_representation(shift, bound, noise)
        source = source_gap(informations, bound, target.scale)
        for split in SPLITS:
            whole = combined_gap(informations, shift, bound, noise, split)
            gap = 50.0 * whole.scale + 1e-9  # far enough that nothing is cut off at 1
            halves = split_chance(source, target, gap, split)
            assert whole.chance(gap) == pytest.approx(halves, rel=1e-9)


def test_equation_3_finds_the_best_split() -> None:
    for learning in LEARNINGS[:8]:
        known = quantities(learning)
        found = optimize.minimize_scalar(
            lambda split, known=known: combined_gap(*known, split).scale,
            bounds=(1e-6, 1 - 1e-6),
            method="bounded",
            options={"xatol": 1e-10},
        )
        assert combined_gap(*known).scale == pytest.approx(found.fun, rel=1e-6)


def test_equation_3_bounds_the_gap_between_training_and_test() -> None:
    for learning in LEARNINGS:
        chance, source, target, _ = source_and_target(learning)
        gaps = np.abs(source - target)
        for split in (None, *SPLITS):
            tail = combined_gap(*quantities(learning), split)
            for gap in np.unique(gaps[gaps > 1e-6]):
                assert chance[gaps >= gap - 1e-15].sum() <= tail.chance(gap) + ROUNDING


def test_equation_3_costs_a_factor_of_four_where_nothing_is_learned() -> None:
    """Leaning domains ½ ± η, a fixed predictor: |L_t − L_s| = 2η with chance ½, against 2."""
    lean = 0.01
    within = np.array([[0.5 - lean, 0.5 + lean], [0.5 + lean, 0.5 - lean]])
    family = DiscreteFamily(within[:, :, None] / 2 * [1.0, 0.0])
    learning = Learning(family, np.array([[0, 1]]), lambda _: np.ones(1))
    chance, source, target, _ = source_and_target(learning)
    actual = chance[np.abs(source - target) > 0.0199].sum()
    scale = combined_gap(*quantities(learning)).scale
    assert scale / (2 * lean) / actual == pytest.approx(4, rel=1e-3)


def test_problem_II_6_with_an_observed_training_risk_is_quantile_risk() -> None:
    """Pr{L_t − L_s ≥ ε} ≤ δ if and only if the upper (1 − δ)-quantile of L_t is below L_s + ε."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        risks, chances = rng.random(6), rng.dirichlet(np.ones(6))
        observed, gap, chance = rng.random(), rng.random() / 2, rng.random()
        allowed = chances[risks - observed >= gap].sum() <= chance
        # The least risk r with Pr{L_t ≥ t} ≤ δ for every t above r.
        order = np.argsort(risks)
        above = 1 - np.cumsum(chances[order])
        quantile = risks[order][np.argmax(above <= chance)]
        if chance < 1:
            assert allowed == (quantile < observed + gap)
