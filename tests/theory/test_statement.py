"""What all bounds share: values by hand, refused arguments, the two kinds, and their names."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from _internals import InvalidValue

from shiftproof import theory as bounds
from shiftproof.theory import STATEMENTS, Bound, TailBound

LOG_3 = 1.0986122886681098

# With I = 0.02: √(I/2) = 0.1 and √(2I) = 0.2.
BY_HAND: list[tuple[Bound, float]] = [
    (bounds.expected_source_gap([0.02, 0.08], 2.0), 0.3),
    (bounds.learned_information([0.1, 0.2], 0.05), 0.35),
    (bounds.expected_source_gap_wasserstein([0.1, 0.3], 2.0), 0.4),
    (bounds.expected_target_gap(0.02, 2.0, 0.03), 0.26),
    (bounds.expected_empirical_gap([0.02], [[0.02, 0.08]], 1.0), 0.25),
    (bounds.expected_empirical_gap([0.02, 0.02], [[0.02], [0.08]], 1.0), 0.25),
    (bounds.expected_empirical_gap_wasserstein([0.1], [[0.2, 0.4]], 2.0), 0.8),
    (bounds.concept_shift_floor(0.2, 0.3), 0.5),
    (bounds.predictor_divergence(0.2, 0.3), 0.5),
    (bounds.proxy_divergence(0.02, math.e**3), 0.6),
    (bounds.conditional_shift(0.5, 0.2), 0.3),
    (bounds.kernel_divergence(0.5, 2.0), 0.25),
    (bounds.kernel_distance(0.5), 1.0),
    (bounds.kernel_information(0.5, 0.5), 1.0),
    (bounds.expectation_gap(0.02, 3.0), 0.6),
    (bounds.second_moment(0.0, 0.5), LOG_3),
    (bounds.second_moment(1.0, 1.0), 4 + 4 * LOG_3),
    (bounds.exponential_square(0.02, 3.0), 2.44),
    (bounds.variation(0.02), 0.1),
    (bounds.expected_variation(0.02), 0.1),
    (bounds.expected_squared_variation(0.02), 0.01),
]
# bound, gap, chance of reaching it
TAILS_BY_HAND: list[tuple[TailBound, float, float]] = [
    (bounds.source_gap([0.02, 0.08], 2.0, 0.05), 0.7, 0.5),
    (bounds.target_gap(0.02, 0.5), 0.4, 0.25),
    (bounds.target_gap_independent(0.02, 0.5, 4), 0.1, 0.25),
    (bounds.target_gap_representation(0.02, 2.0, 0.03), 0.52, 0.5),
    (bounds.target_gap_representation_independent(0.02, 2.0, 4, 0.1), 0.3, 0.25),
    (bounds.target_gap_wasserstein(0.04, 3.0, 4), 0.6, 0.25),
    (bounds.target_gap_representation_wasserstein(0.04, 3.0, 4, 0.1), 0.7, 0.25),
    (bounds.risk_gap(0.02, 2.0, 4), 0.2, 0.25),
    (bounds.risk_gap(0.02, 2.0), 0.4, 0.25),
    (bounds.combined_gap([0.02], 0.02, 1.0, 0.0, split=0.5), 1.2, 0.5),
    (bounds.combined_gap([0.02], 0.02, 1.0, 0.0), 0.3 + 0.2 * math.sqrt(2), 1.0),
    (bounds.empirical_gap(1.0, 2.0, 2, 3), 2.0, (1 + LOG_3) / 6),
    (bounds.empirical_gap_to_average(1.0, 2.0, 3), 2.0, (1 + LOG_3) / 3),
    (bounds.deviation(1.0, 0.5), 2.0, (1 + LOG_3) / 4),
]


@pytest.mark.parametrize(("bound", "value"), BY_HAND)
def test_values_by_hand(bound: Bound, value: float) -> None:
    assert bound.value == pytest.approx(value, rel=1e-12)
    assert bound.probability is None


@pytest.mark.parametrize(("tail", "gap", "chance"), TAILS_BY_HAND)
def test_chances_by_hand(tail: TailBound, gap: float, chance: float) -> None:
    assert tail.chance(gap) == pytest.approx(chance, rel=1e-12)
    if chance < 1:
        assert tail.gap(chance) == pytest.approx(gap, rel=1e-12)
        at = tail.at(chance)
        assert at.value == tail.gap(chance)
        assert at.probability == pytest.approx(1 - chance)
        assert at.assumptions == tail.assumptions


def test_a_chance_is_at_most_one() -> None:
    tail = bounds.target_gap_representation_independent(0.02, 2.0, 4, 0.1)
    assert tail.chance(0.05) == tail.chance(0.1) == tail.chance(0.2) == 1.0
    assert tail.chance(0.2001) < 1.0


def test_no_information_is_no_gap_and_infinite_information_no_bound() -> None:
    assert bounds.target_gap(0.0, 1.0).chance(1e-9) == 0.0
    assert bounds.target_gap(math.inf, 1.0).chance(1e9) == 1.0
    assert bounds.expected_source_gap([math.inf], 1.0).value == math.inf


@pytest.mark.parametrize("bound", [bound for bound, *_ in (*BY_HAND, *TAILS_BY_HAND)])
def test_every_bound_names_its_statement(bound: Bound | TailBound) -> None:
    number, _, label = bound.statement.partition(" (")
    if number in STATEMENTS:
        assert label.removesuffix(")") == STATEMENTS[number]
    else:
        assert number.startswith(("Equation (", "Equation", "Section A", "Appendix A"))
    for sentence in bound.assumptions:
        assert sentence.endswith(".")
        assert "\n" not in sentence


REFUSED: list[Callable[[], object]] = [
    lambda: bounds.expected_source_gap([], 1.0),
    lambda: bounds.expected_source_gap([0.1, -0.1], 1.0),
    lambda: bounds.expected_source_gap([0.1], 0.0),
    lambda: bounds.expected_source_gap([math.nan], 1.0),
    lambda: bounds.expected_source_gap([0.1], math.inf),
    lambda: bounds.source_gap([0.1], 1.0, -0.1),
    lambda: bounds.learned_information([]),
    lambda: bounds.learned_information([0.1], -1.0),
    lambda: bounds.expected_source_gap_wasserstein([-0.1], 1.0),
    lambda: bounds.expected_source_gap_wasserstein([0.1], 0.0),
    lambda: bounds.target_gap(-1e-9, 1.0),
    lambda: bounds.target_gap(0.1, -1.0),
    lambda: bounds.target_gap_independent(0.1, 1.0, 0),
    lambda: bounds.target_gap_independent(0.1, 1.0, 1.5),  # type: ignore[arg-type]
    lambda: bounds.target_gap_representation(0.1, 1.0, -0.1),
    lambda: bounds.target_gap_representation_independent(0.1, 1.0, 2, -0.1),
    lambda: bounds.target_gap_wasserstein(-0.1, 1.0, 2),
    lambda: bounds.target_gap_wasserstein(0.1, 0.0, 2),
    lambda: bounds.target_gap_representation_wasserstein(0.1, 1.0, 0, 0.0),
    lambda: bounds.risk_gap(-0.1, 1.0),
    lambda: bounds.risk_gap(0.1, 1.0, 0),
    lambda: bounds.combined_gap([0.1], 0.1, 1.0, 0.0, split=1.0),
    lambda: bounds.split_chance(bounds.target_gap(0, 1), bounds.target_gap(0, 1), 0.1, 0.0),
    lambda: bounds.expected_empirical_gap([0.1], [[0.1], [0.1]], 1.0),
    lambda: bounds.expected_empirical_gap_wasserstein([0.1, 0.1], [[0.1]], 1.0),
    lambda: bounds.empirical_gap(0.1, 1.0, 2, 0),
    lambda: bounds.empirical_gap(0.1, 0.0, 2, 1),
    lambda: bounds.concept_shift_floor(-0.1),
    lambda: bounds.distribution_shift(0.1, -0.1),
    lambda: bounds.conditional_shift(0.1, 0.2),
    lambda: bounds.proxy_divergence(0.1, 0.9),
    lambda: bounds.exponential_square(0.25, 1.0),
    lambda: bounds.kernel_divergence(0.1, 0.0),
    lambda: bounds.kernel_distance(-0.1),
    lambda: bounds.variation(-0.1),
    lambda: bounds.target_gap(0.1, 1.0).gap(0.0),
    lambda: bounds.target_gap(0.1, 1.0).gap(1.0),
    lambda: bounds.target_gap(0.1, 1.0).chance(0.0),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_arguments_that_break_an_assumption_are_refused(case: int) -> None:
    with pytest.raises(InvalidValue) as refused:
        REFUSED[case]()
    assert "\n" not in str(refused.value)


def test_every_statement_of_the_paper_has_a_test_named_after_it() -> None:
    """As ``test_theorem_III_2_…`` somewhere in this folder."""
    named = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        pattern = r"^def test_(theorem|proposition|lemma)_([IVA]+)_(\d+)_"
        for kind, section, number in re.findall(pattern, path.read_text("utf-8"), re.MULTILINE):
            named.add(f"{kind.capitalize()} {section}.{number}")
    assert named == set(STATEMENTS)
