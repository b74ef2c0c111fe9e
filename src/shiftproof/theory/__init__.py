"""The bounds of the paper, each a pure function of its quantities, in nats.

Each function returns a `Bound` (one number) or a `TailBound` (a probability for every gap, and a
gap for every probability), with the assumptions of its statement.  Where the paper is wrong, the
function states and uses the corrected form.  `docs/theorems.md` lists the function for each
statement of the paper.
"""

from __future__ import annotations

from shiftproof.theory.combined import combined_gap, split_chance
from shiftproof.theory.empirical import (
    empirical_gap,
    empirical_gap_to_average,
    expected_empirical_gap,
    expected_empirical_gap_wasserstein,
)
from shiftproof.theory.impossibility import (
    Environments,
    environments_blind_between,
    indistinguishable_environments,
)
from shiftproof.theory.lemmas import (
    deviation,
    expectation_gap,
    expected_squared_variation,
    expected_variation,
    exponential_square,
    second_moment,
    variation,
)
from shiftproof.theory.matching import kernel_distance, kernel_divergence, kernel_information
from shiftproof.theory.shift import (
    concept_shift_floor,
    conditional_shift,
    distribution_shift,
    distribution_shift_by_label,
    predictor_divergence,
    proxy_divergence,
)
from shiftproof.theory.source import (
    expected_source_gap,
    expected_source_gap_wasserstein,
    learned_information,
    source_gap,
)
from shiftproof.theory.statement import STATEMENTS, Bound, TailBound
from shiftproof.theory.target import (
    expected_target_gap,
    risk_gap,
    target_gap,
    target_gap_independent,
    target_gap_representation,
    target_gap_representation_independent,
    target_gap_representation_wasserstein,
    target_gap_wasserstein,
)

__all__ = [
    "STATEMENTS",
    "Bound",
    "Environments",
    "TailBound",
    "combined_gap",
    "concept_shift_floor",
    "conditional_shift",
    "deviation",
    "distribution_shift",
    "distribution_shift_by_label",
    "empirical_gap",
    "empirical_gap_to_average",
    "environments_blind_between",
    "expectation_gap",
    "expected_empirical_gap",
    "expected_empirical_gap_wasserstein",
    "expected_source_gap",
    "expected_source_gap_wasserstein",
    "expected_squared_variation",
    "expected_target_gap",
    "expected_variation",
    "exponential_square",
    "indistinguishable_environments",
    "kernel_distance",
    "kernel_divergence",
    "kernel_information",
    "learned_information",
    "predictor_divergence",
    "proxy_divergence",
    "risk_gap",
    "second_moment",
    "source_gap",
    "split_chance",
    "target_gap",
    "target_gap_independent",
    "target_gap_representation",
    "target_gap_representation_independent",
    "target_gap_representation_wasserstein",
    "target_gap_wasserstein",
    "variation",
]
