"""The bounds of the paper: every one a pure function of its quantities, in nats.

Each function returns a `Bound` (one number) or a `TailBound` (a probability for every gap, and a
gap for every probability), with the assumptions of its statement.  Statements have their printed
numbers and the labels of the paper's source.  Where the paper is wrong, the function states and
uses the corrected form.

| printed | label | function |
|---|---|---|
| Equation (1) | eq:dist_shift | distribution_shift |
| Proposition III.1 | prop:concept_shift | concept_shift_floor, predictor_divergence |
| Theorem III.2 | thm:pp_domain | expected_source_gap, source_gap |
| Theorem III.3 | thm:mi_bound | learned_information (corrected) |
| Theorem III.4 | thm:pp_domain_wass | expected_source_gap_wasserstein |
| Equation (2) | eq:wass_reduce | expected_variation |
| Theorem III.5 | thm:pp_con | target_gap |
| Theorem III.6 | thm:pp_best | target_gap_representation, expected_target_gap (corrected) |
| Proposition III.7 | prop:cov_shift_emp | proxy_divergence (corrected) |
| Equation (3) | eq:solution | combined_gap |
| Theorem IV.1 | thm:indist | indistinguishable_environments |
| | | environments_blind_between (corrected) |
| Theorems IV.2, 3 | thm:bijection, … | kernel_divergence, kernel_distance, kernel_information |
| Lemmas A.6, A.9 | lm:kl_con_pair, … | expectation_gap, second_moment, deviation |
| Lemma A.7 | lm:sg_sq | exponential_square |
| Lemmas A.8, A.10 | lm:dv_ineq, … | identities, used only in proofs |
| Lemma A.11 | lm:pinsker | variation |
| Proposition A.12 | | split_chance |
| Appendix A | | distribution_shift_by_label, conditional_shift, risk_gap |
| Proposition A.13 | prop:ib_emp | proxy_divergence (corrected) |
| Theorem A.14 | | target_gap_independent |
| Theorem A.15 | | target_gap_representation_independent (corrected) |
| Theorem A.16 | thm:pp_wass_con | target_gap_wasserstein (corrected), expected_squared_variation |
| Theorem A.17 | thm:pp_wass_best | target_gap_representation_wasserstein (corrected) |
| Theorem A.18 | thm:ep_con | expected_empirical_gap |
| | | empirical_gap, empirical_gap_to_average (corrected) |
| Theorem A.19 | thm:ep_wass | expected_empirical_gap_wasserstein |
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
