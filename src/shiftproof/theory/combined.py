"""Bound on the gap between training and test domains: the two terms that IDM minimises."""

from __future__ import annotations

import math
from collections.abc import Sequence

from shiftproof.theory.source import mean_root
from shiftproof.theory.statement import (
    BOUNDED,
    METRIC,
    SAME_LAW,
    TEST_APART,
    TailBound,
    check_level,
)
from shiftproof.theory.target import OF_THE_ENCODER, expected_target_gap


def split_chance(source: TailBound, target: TailBound, gap: float, split: float) -> float:
    """Bound Pr{|L_s(W) − L_t(W)| ≥ ε} by two terms (Proposition A.12).

    The bound is Pr{|L_s − L| ≥ λε} + Pr{|L_t − L| ≥ (1 − λ)ε}, for any λ = `split` in (0, 1).
    """
    check_level(split)
    return min(1.0, source.chance(split * gap) + target.chance((1 - split) * gap))


def combined_gap(
    information_per_domain: Sequence[float],
    covariate_shift: float,
    loss_bound: float,
    label_noise: float,
    split: float | None = None,
) -> TailBound:
    """Bound the probability of a large |L_t(W) − L_s(W)| (Equation (3), Section IV).

    With A = (M/√2) (1/m) Σᵢ √I(W;D_i), the term that gradient matching reduces, and
    B = (M/√2) √I(R;D) + 2L*, the term that representation matching reduces,

        Pr{|L_t(W) − L_s(W)| ≥ ε} ≤ (1/ε) [A/λ + B/(λ(1 − λ))].

    The optimal λ is √(A+B) / (√(A+B) + √B), which gives (√(A+B) + √B)² / ε.

    The text derives the second term from Theorem III.5; it follows from Theorem III.6, two-sided.
    I(R;D) and L* are means over the learned encoder (`expected_target_gap`).

    Args:
        information_per_domain: I(W;D_i) of each training domain.
        covariate_shift: I(R;D).
        loss_bound: M.
        label_noise: L*.
        split: λ; the optimal one by default.

    >>> round(combined_gap([0.02], 0.02, 1.0, 0.0).scale, 6)
    0.582843
    """
    learned = mean_root(information_per_domain, loss_bound)
    moved = expected_target_gap(covariate_shift, loss_bound, label_noise).value
    if split is None:
        scale = (math.sqrt(learned + moved) + math.sqrt(moved)) ** 2
    else:
        check_level(split)
        scale = learned / split + moved / (split * (1 - split))
    return TailBound(
        "Equation (3) (eq:solution)",
        "|L_t(W) − L_s(W)|",
        scale,
        1,
        (BOUNDED, METRIC, SAME_LAW, TEST_APART, OF_THE_ENCODER),
    )
