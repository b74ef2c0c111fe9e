"""The bounds of the paper, each a pure function of its quantities, in nats.

Each function returns a `Bound` (one number) or a `TailBound` (a probability for every gap, and a
gap for every probability), with the assumptions of its statement.  Where the paper is wrong, the
function states and uses the corrected form.  `docs/theorems.md` lists the function for each
statement of the paper.
"""

from __future__ import annotations

from shiftproof.theory.gaps import (
    combined_gap as combined_gap,
    empirical_gap as empirical_gap,
    empirical_gap_to_average as empirical_gap_to_average,
    expected_empirical_gap as expected_empirical_gap,
    expected_empirical_gap_wasserstein as expected_empirical_gap_wasserstein,
    expected_source_gap as expected_source_gap,
    expected_source_gap_wasserstein as expected_source_gap_wasserstein,
    expected_target_gap as expected_target_gap,
    learned_information as learned_information,
    risk_gap as risk_gap,
    source_gap as source_gap,
    split_chance as split_chance,
    target_gap as target_gap,
    target_gap_independent as target_gap_independent,
    target_gap_representation as target_gap_representation,
    target_gap_representation_independent as target_gap_representation_independent,
    target_gap_representation_wasserstein as target_gap_representation_wasserstein,
    target_gap_wasserstein as target_gap_wasserstein,
)
from shiftproof.theory.impossibility import (
    Environments as Environments,
    environments_blind_between as environments_blind_between,
    indistinguishable_environments as indistinguishable_environments,
)
from shiftproof.theory.shifts import (
    concept_shift_floor as concept_shift_floor,
    conditional_shift as conditional_shift,
    deviation as deviation,
    distribution_shift as distribution_shift,
    distribution_shift_by_label as distribution_shift_by_label,
    expectation_gap as expectation_gap,
    expected_squared_variation as expected_squared_variation,
    expected_variation as expected_variation,
    exponential_square as exponential_square,
    kernel_distance as kernel_distance,
    kernel_divergence as kernel_divergence,
    kernel_information as kernel_information,
    predictor_divergence as predictor_divergence,
    proxy_divergence as proxy_divergence,
    second_moment as second_moment,
    variation as variation,
)
from shiftproof.theory.statement import (
    STATEMENTS as STATEMENTS,
    Bound as Bound,
    TailBound as TailBound,
)

__all__ = sorted(
    name
    for name, value in vars().items()
    if name == "STATEMENTS" or getattr(value, "__module__", "").startswith(__name__)
)
