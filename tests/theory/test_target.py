"""Test domains: every bound against all groups of domains of discrete families, and Gaussians."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from known_families import DiscreteFamily, GaussianMeanShift, colored_digits
from scipy import stats

from shiftproof.information import mutual_information
from shiftproof.theory import (
    TailBound,
    expected_squared_variation,
    expected_target_gap,
    risk_gap,
    target_gap,
    target_gap_independent,
    target_gap_representation,
    target_gap_representation_independent,
    target_gap_representation_wasserstein,
    target_gap_wasserstein,
)

ROUNDING = 1e-9


def random_family(seed: int, shape: float = 0.3, domains: int = 3) -> DiscreteFamily:
    rng = np.random.default_rng(seed)
    joint = rng.gamma(shape, size=(domains, 3, 2)) + 1e-9
    return DiscreteFamily(joint / joint.sum())


def leaning(lean: float, rare: float = 0.5) -> DiscreteFamily:
    """Two domains, P(X = 1) = ½ ± lean; the label is always 0 and x itself the prediction."""
    within = np.array([[0.5 - lean, 0.5 + lean], [0.5 + lean, 0.5 - lean]])
    return DiscreteFamily((np.array([rare, 1 - rare])[:, None] * within)[:, :, None] * [1.0, 0.0])


FAMILIES = [
    colored_digits((0.9, 0.8)),
    colored_digits(),
    colored_digits((1.0, 0.0), noise=0.0),
    leaning(0.01),
    leaning(0.5),
    leaning(0.3, rare=0.02),
    *[random_family(seed) for seed in range(12)],
    *[random_family(seed, shape=5.0) for seed in range(4)],
    *[random_family(seed, shape=0.05) for seed in range(6)],
]
CASES = [
    (family, predictor)
    for family in FAMILIES
    for predictor in itertools.product(range(2), repeat=family.joint.shape[1])
]
GAUSSIANS = [
    (GaussianMeanShift(spread, 1.0, noise, follow), threshold)
    for spread in (0.05, 0.5, 3.0)
    for noise, follow in ((0.0, 0.0), (0.2, 0.0), (0.1, 0.7))
    for threshold in (0.3, 1.0, 4.0)
]


def groups(weights: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """All groups of independent domains [groups, size], and their probabilities."""
    drawn = np.array(list(itertools.product(range(len(weights)), repeat=size)))
    return drawn, weights[drawn].prod(axis=1)


def gaps_of(risks: np.ndarray, weights: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """L_t − L of all groups, and their probabilities."""
    drawn, chances = groups(weights, size)
    return risks[drawn].mean(axis=1) - risks @ weights, chances


def assert_holds(tail: TailBound, gaps: np.ndarray, chances: np.ndarray) -> None:
    """The hardest gaps to bound are those that are reached exactly."""
    for gap in np.unique(gaps[gaps > 1e-6]):
        assert chances[gaps >= gap - 1e-15].sum() <= tail.chance(gap) + ROUNDING


def assert_covers(tail: TailBound, gaps: np.ndarray) -> None:
    """Simulated gaps: their quantiles, up to the error of the simulation."""
    sizes = np.sort(np.abs(gaps))
    for share in (0.05, 0.3, 0.5, 0.9, 0.99):
        assert 1 - share <= tail.chance(sizes[int(share * len(sizes))]) + 0.02


# --- Theorems III.5 and A.14 ------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3])
def test_theorem_III_5_and_A_14_hold_for_all_groups(size: int) -> None:
    for family, predictor in CASES:
        gaps, chances = gaps_of(family.risks(predictor), family.weights, size)
        shift = family.distribution_shift
        assert_holds(target_gap(shift, 0.5), np.abs(gaps), chances)
        assert_holds(target_gap_independent(shift, 0.5, size), np.abs(gaps), chances)


def test_theorem_III_5_holds_for_domains_that_are_one_and_the_same() -> None:
    """Dependence does no harm: a group of copies is a group of one."""
    for family, predictor in CASES[::5]:
        gaps, chances = gaps_of(family.risks(predictor), family.weights, 1)
        assert_holds(target_gap(family.distribution_shift, 0.5), np.abs(gaps), chances)
        squared = target_gap_independent(family.distribution_shift, 0.5, 1)
        assert_holds(squared, np.abs(gaps), chances)


def test_theorem_III_5_holds_in_the_representation() -> None:
    """With I(R,Y;D) ≤ I(Z;D), for predictors that read the code alone."""
    codes = [0, 0, 1, 1]
    family = colored_digits((0.9, 0.3, 0.6))
    for by_code in itertools.product(range(2), repeat=2):
        gaps, chances = gaps_of(family.encode(codes).risks(by_code), family.weights, 2)
        tail = target_gap(family.encode(codes).distribution_shift, 0.5)
        assert tail.scale <= target_gap(family.distribution_shift, 0.5).scale
        assert_holds(tail, np.abs(gaps), chances)


def test_theorem_III_5_is_nearly_reached() -> None:
    """Leaning domains: the gap is the lean, always."""
    for lean in (0.001, 0.05, 0.2):
        family = leaning(lean)
        gaps, _ = gaps_of(family.risks([0, 1]), family.weights, 1)
        assert np.abs(gaps) == pytest.approx(lean)
        ratio = target_gap(family.distribution_shift, 0.5).scale / lean
        assert 1 <= ratio < 1 + lean**2


def test_theorem_III_5_holds_for_gaussian_means() -> None:
    ratios = []
    for family, threshold in GAUSSIANS:
        tail = target_gap(family.distribution_shift, 0.5)
        ratios.append(tail.scale / max(family.expected_gap(threshold), 1e-12))
        assert_covers(tail, family.target_gaps(threshold, 3, 5_000, seed=0))
    assert 1 <= min(ratios) < 1.6  # π/2, at a far threshold and a small spread


def test_theorem_A_14_is_nearly_reached_by_two_domains() -> None:
    """Both on one side with probability ½; the bound says ½ as well."""
    family = leaning(0.01)
    gaps, chances = gaps_of(family.risks([0, 1]), family.weights, 2)
    actual = chances[np.abs(gaps) > 0.0099].sum()
    assert actual == pytest.approx(0.5)
    tail = target_gap_independent(family.distribution_shift, 0.5, 2)
    assert 1 <= tail.chance(0.01) / actual < 1.001


def test_theorem_A_14_holds_for_gaussian_means() -> None:
    for (family, threshold), size in itertools.product(GAUSSIANS, (1, 4)):
        tail = target_gap_independent(family.distribution_shift, 0.5, size)
        assert_covers(tail, family.target_gaps(threshold, size, 5_000, seed=size))


# --- Theorem III.6 ----------------------------------------------------------------------------


def best_risk(family: DiscreteFamily) -> float:
    return float(family.risks(family.best_predictor()) @ family.weights)


@pytest.mark.parametrize("size", [1, 2])
def test_theorem_III_6_holds_for_all_groups(size: int) -> None:
    for family, predictor in CASES:
        gaps, chances = gaps_of(family.risks(predictor), family.weights, size)
        quantities = family.covariate_shift, 1.0, best_risk(family)
        assert_holds(target_gap_representation(*quantities), np.abs(gaps), chances)
        assert chances @ np.abs(gaps) <= expected_target_gap(*quantities).value + ROUNDING


def test_theorem_III_6_holds_for_gaussian_means() -> None:
    for family, threshold in GAUSSIANS:
        if family.follow == 0:  # L* is the label noise
            bound = expected_target_gap(family.covariate_shift, 1.0, family.noise)
            assert family.expected_gap(threshold) <= bound.value
    family = GaussianMeanShift(0.05)
    ratio = expected_target_gap(family.covariate_shift, 1.0, 0.0).value / family.expected_gap(4.0)
    assert ratio == pytest.approx(math.pi / 2, rel=0.01)


def test_theorem_III_6_first_term_is_nearly_reached() -> None:
    """No label noise and leaning domains."""
    family = leaning(0.01)
    assert best_risk(family) == 0
    gaps, chances = gaps_of(family.risks([0, 1]), family.weights, 1)
    bound = expected_target_gap(family.covariate_shift, 1.0, 0.0).value
    assert 1 <= bound / (chances @ np.abs(gaps)) < 1.001


def test_theorem_III_6_second_term_is_nearly_reached() -> None:
    """No covariate shift, and a rare domain with all labels turned: 2ρ(1 − ρ) against 2ρ."""
    for rare in (0.01, 0.1):
        family = DiscreteFamily(np.array([[[0.0, rare]], [[1 - rare, 0.0]]]))
        gaps, chances = gaps_of(family.risks([0]), family.weights, 1)
        bound = expected_target_gap(family.covariate_shift, 1.0, best_risk(family)).value
        assert bound / (chances @ np.abs(gaps)) == pytest.approx(1 / (1 - rare))


def test_theorem_III_6_by_product_as_printed_fails_for_a_random_encoder() -> None:
    """X = D, and the encoder adds a random bit W that the classifier takes off again.

    R alone is independent of D and L* = 0, so the printed bound is 0; the gap is ½.
    """
    joint = np.zeros((2, 2, 2))  # W, R, D
    for w, d in itertools.product(range(2), repeat=2):
        joint[w, d ^ w, d] = 0.25
    family = DiscreteFamily(np.eye(2)[:, :, None] / 2 * [1.0, 0.0])  # Y = 0
    gaps, chances = gaps_of(family.risks([0, 1]), family.weights, 1)
    actual = chances @ np.abs(gaps)
    assert actual == pytest.approx(0.5)
    mixed = mutual_information(joint, [1], [2])
    assert expected_target_gap(mixed, 1.0, 0.0).value == pytest.approx(0)  # as printed
    by_encoder = mutual_information(joint, [1], [2], given=[0])
    assert actual <= expected_target_gap(by_encoder, 1.0, 0.0).value < 1.2 * actual


# --- Theorem A.15 -----------------------------------------------------------------------------


def assert_holds_beyond(
    tail: TailBound, gaps: np.ndarray, offsets: np.ndarray, chances: np.ndarray
) -> None:
    """Pr{gap ≥ ε + offset} where the offset L_t(f*) + L(f*) differs by group."""
    assert_holds(tail, gaps - offsets, chances)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_theorem_A_15_holds_for_all_groups_and_references(size: int) -> None:
    for family, predictor in CASES[:: 2 * size - 1]:
        tail = target_gap_representation_independent(family.covariate_shift, 1.0, size, 0.0)
        gaps, chances = gaps_of(family.risks(predictor), family.weights, size)
        drawn, _ = groups(family.weights, size)
        for reference in {tuple(family.best_predictor()), (0,) * len(predictor), predictor}:
            risks = family.risks(reference)
            offsets = risks[drawn].mean(axis=1) + risks @ family.weights
            assert_holds_beyond(tail, gaps, offsets, chances)


def test_theorem_A_15_is_within_a_factor_of_two() -> None:
    """One of two leaning domains is above the average: ½ against a bound of 1."""
    family = leaning(0.01)
    gaps, chances = gaps_of(family.risks([0, 1]), family.weights, 1)
    actual = chances[gaps > 0.0099].sum()
    tail = target_gap_representation_independent(family.covariate_shift, 1.0, 1, 0.0)
    assert 1.99 < min(tail.scale / 0.01, 2) ** 2 / actual < 2.01


def test_theorem_A_15_with_a_reference_after_the_fact_holds_for_one_domain() -> None:
    """The printed L*, the best f for this very test domain: covered by total variation."""
    for family, predictor in CASES:
        pooled = family.joint.sum(axis=0)
        offsets = np.minimum.reduce(
            [
                family.risks(reference) + family.risks(reference) @ family.weights
                for reference in itertools.product(range(2), repeat=len(pooled))
            ]
        )
        gaps, chances = gaps_of(family.risks(predictor), family.weights, 1)
        tail = target_gap_representation_independent(family.covariate_shift, 1.0, 1, 0.0)
        assert_holds_beyond(tail, gaps, offsets, chances)


# --- Theorems A.16 and A.17: data on the line -------------------------------------------------


def line_domains(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places on the line, domain weights, and P(place | domain)."""
    rng = np.random.default_rng(seed)
    within = rng.gamma(0.3, size=(3, 5)) + 1e-9
    weights = rng.dirichlet([1, 1, 1])
    return np.sort(rng.normal(size=5)), weights, within / within.sum(axis=1, keepdims=True)


def mean_squared_distance(places: np.ndarray, weights: np.ndarray, within: np.ndarray) -> float:
    pooled = weights @ within
    moved = [stats.wasserstein_distance(places, places, row, pooled) for row in within]
    return float(weights @ np.square(moved))


@pytest.mark.parametrize("size", [1, 2, 3])
def test_theorem_A_16_holds_for_lipschitz_losses_on_the_line(size: int) -> None:
    for seed in range(10):
        places, weights, within = line_domains(seed)
        tail = target_gap_wasserstein(mean_squared_distance(places, weights, within), 2.0, size)
        for losses in (2 * np.abs(places), 2 * np.maximum(places, 0), 1 + np.sin(2 * places)):
            gaps, chances = gaps_of(within @ losses, weights, size)
            assert_holds(tail, np.abs(gaps), chances)


@pytest.mark.parametrize("size", [1, 3])
def test_theorem_A_16_holds_in_the_discrete_metric(size: int) -> None:
    for family, predictor in CASES[::3]:
        gaps, chances = gaps_of(family.risks(predictor), family.weights, size)
        squared = expected_squared_variation(family.distribution_shift).value
        pooled = family.joint.sum(axis=0)
        variations = np.abs(family.within - pooled).sum(axis=(1, 2)) / 2
        assert family.weights @ variations**2 <= squared + ROUNDING
        assert_holds(target_gap_wasserstein(squared, 1.0, size), np.abs(gaps), chances)


def test_theorem_A_16_is_reached() -> None:
    """Two point masses: the loss moves with the point."""
    places, weights, within = np.array([1.0, 3.0]), np.array([0.5, 0.5]), np.eye(2)
    tail = target_gap_wasserstein(mean_squared_distance(places, weights, within), 1.0, 1)
    gaps, _ = gaps_of(within @ places, weights, 1)
    assert np.abs(gaps) == pytest.approx(tail.scale)


def test_theorem_A_16_as_printed_fails_for_dependent_test_domains() -> None:
    """The text asks for independence of training domains only: take four times one domain."""
    places, weights, within = np.array([1.0, 3.0]), np.array([0.5, 0.5]), np.eye(2)
    squared = mean_squared_distance(places, weights, within)
    gaps, chances = gaps_of(within @ places, weights, 1)  # of four copies as of one
    actual = chances[np.abs(gaps) >= 1].sum()
    assert actual == 1
    assert target_gap_wasserstein(squared, 1.0, 4).chance(1.0) == pytest.approx(0.25)


def test_assumption_II_5_as_printed_allows_no_loss_but_zero() -> None:
    """|ℓ(z₁) + ℓ(z₂)| ≤ β c(z₁, z₂) at z₁ = z₂ says ℓ = 0; with the minus sign, distances do."""
    places = np.linspace(-2, 2, 9)
    losses, apart = np.abs(places), np.abs(np.subtract.outer(places, places))
    assert not (np.abs(np.add.outer(losses, losses)) <= 1e6 * apart).all()
    assert (np.abs(np.subtract.outer(losses, losses)) <= apart + 1e-12).all()


@pytest.mark.parametrize("size", [1, 2, 3])
def test_theorem_A_17_holds_for_linear_predictors(size: int) -> None:
    """Absolute error, predictors w·x with |w| ≤ 1, labels that move with the domain."""
    for seed in range(8):
        places, weights, within = line_domains(seed)
        labels = np.random.default_rng(seed).normal(0.3 * places, 0.2, size=(3, 5))
        tail = target_gap_representation_wasserstein(
            mean_squared_distance(places, weights, within), 2.0, size, 0.0
        )
        drawn, chances = groups(weights, size)
        risks = {
            w: (within * np.abs(w * places - labels)).sum(axis=1) for w in (-1.0, 0.0, 0.3, 1.0)
        }
        for w, reference in itertools.product(risks, repeat=2):
            gaps, _ = gaps_of(risks[w], weights, size)
            offsets = risks[reference][drawn].mean(axis=1) + risks[reference] @ weights
            assert_holds_beyond(tail, gaps, offsets, chances)


def test_theorem_A_17_is_nearly_reached_by_a_rare_domain() -> None:
    """Points at 0, rarely at 1, labels 0, prediction x: the bound is ρ/(1 − ρ) for ρ."""
    for rare in (0.01, 0.1):
        places, weights, within = np.array([0.0, 1.0]), np.array([1 - rare, rare]), np.eye(2)
        tail = target_gap_representation_wasserstein(
            mean_squared_distance(places, weights, within), 1.0, 1, 0.0
        )
        assert tail.chance(1 - rare) / rare == pytest.approx(1 / (1 - rare))


# --- the shift of the risk --------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3])
def test_risk_shift_bounds_the_gap_and_is_the_smallest_shift(size: int) -> None:
    for family, predictor in CASES:
        gaps, chances = gaps_of(family.risks(predictor), family.weights, size)
        shift = family.risk_shift(predictor)
        assert shift <= family.distribution_shift + ROUNDING
        assert_holds(risk_gap(shift, 1.0, size), np.abs(gaps), chances)


def test_risk_shift_with_losses_of_many_values() -> None:
    loss = np.array([[0.0, 2.0], [0.5, 0.1]])
    for family in FAMILIES:
        predictor = [0, 1, *[0] * (family.joint.shape[1] - 2)]
        gaps, chances = gaps_of(family.risks(predictor, loss), family.weights, 2)
        assert_holds(risk_gap(family.risk_shift(predictor, loss), 2.0, 2), np.abs(gaps), chances)


def test_risk_shift_is_nearly_reached_and_not_always_strictly_smaller() -> None:
    """Leaning domains again: the loss is x itself, so nothing is lost, against the text."""
    family = leaning(0.01)
    assert family.risk_shift([0, 1]) == pytest.approx(family.distribution_shift)
    assert 1 <= risk_gap(family.risk_shift([0, 1]), 1.0).scale / 0.01 < 1.001


def test_risk_shift_of_gaussian_means() -> None:
    """Far below I(Z;D), and still a bound: that is its use."""
    family = GaussianMeanShift(3.0, noise=0.2)
    threshold = 1.0
    shift = family.risk_shift(threshold)
    assert shift < 0.02 * family.distribution_shift
    tail = risk_gap(shift, 1.0, 4)
    gaps = family.target_gaps(threshold, 4, 20_000, seed=0)
    assert_covers(tail, gaps)
    assert tail.scale / math.sqrt(np.mean(gaps**2)) < 1.5
