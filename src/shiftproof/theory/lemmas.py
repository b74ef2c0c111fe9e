"""The lemmas: bounds on expectations, moments and total variation by information."""

from __future__ import annotations

import math

from shiftproof.core.errors import InvalidValue
from shiftproof.theory.statement import (
    Bound,
    TailBound,
    information,
    nonnegative,
    positive,
    printed,
)

SUBGAUSSIAN_PAIR = "f(X, Ȳ) is σ-sub-Gaussian, with Ȳ distributed as Y but independent of X."
SUBGAUSSIAN_EACH = "f(x, Y) is σ-sub-Gaussian for each x."
CENTRED = "X is σ-sub-Gaussian with mean 0."


def expectation_gap(shared: float, subgaussian: float) -> Bound:
    """Bound |E f(X,Y) − E f(X,Ȳ)| ≤ √(2σ² I(X;Y)) (Lemma A.6, first part).

    With KL(Q ‖ P) in place of I(X;Y) it bounds |E_Q f − E_P f| (Lemma A.9, first part).

    >>> round(expectation_gap(0.02, subgaussian=0.5).value, 6)
    0.1
    """
    sigma = positive("the sub-Gaussian parameter", subgaussian)
    value = sigma * math.sqrt(2 * information("the information", shared))
    return Bound(printed("Lemma A.6"), "|E f(X,Y) − E f(X,Ȳ)|", value, (SUBGAUSSIAN_PAIR,))


def second_moment(shared: float, subgaussian: float) -> Bound:
    """Bound E[(f(X,Y) − E f(X,Ȳ))²] ≤ 4σ² (I(X;Y) + log 3) (Lemma A.6, second part).

    With KL(Q ‖ P) in place of I(X;Y) it bounds E_Q[(f − E_P f)²] (Lemma A.9, second part).
    log 3 could be ½ log 2, as E exp(λX²) ≤ (1 − 2λσ²)^(−½); the paper's constant is kept.
    """
    sigma = positive("the sub-Gaussian parameter", subgaussian)
    value = 4 * sigma**2 * (information("the information", shared) + math.log(3))
    return Bound(printed("Lemma A.6"), "E[(f(X,Y) − E f(X,Ȳ))²]", value, (SUBGAUSSIAN_EACH,))


def deviation(shared: float, subgaussian: float) -> TailBound:
    """Bound the probability of a large |f(X,Y) − E f(X,Ȳ)| by `second_moment` (Lemma A.6).

    With KL(Q ‖ P) it bounds the probability of a large |f(X′) − E_P f| for X′ ~ Q (Lemma A.9,
    third part).
    """
    scale = math.sqrt(second_moment(shared, subgaussian).value)
    return TailBound(printed("Lemma A.6"), "|f(X,Y) − E f(X,Ȳ)|", scale, 2, (SUBGAUSSIAN_EACH,))


def exponential_square(rate: float, subgaussian: float) -> Bound:
    """Bound E exp(λX²) ≤ 1 + 8λσ² for 0 ≤ λ < 1/(4σ²) (Lemma A.7)."""
    sigma = positive("the sub-Gaussian parameter", subgaussian)
    scaled = nonnegative("the rate λ", rate) * sigma**2
    if not scaled < 1 / 4:
        raise InvalidValue(f"the rate λ must be below 1/(4σ²) = {1 / (4 * sigma**2)}, not {rate}")
    return Bound(printed("Lemma A.7"), "E exp(λX²)", 1 + 8 * scaled, (CENTRED,))


def variation(divergence: float) -> Bound:
    """Bound TV(P, Q) ≤ √(KL(Q ‖ P) / 2) (Pinsker's inequality, Lemma A.11)."""
    value = math.sqrt(nonnegative("a divergence", divergence) / 2)
    return Bound(printed("Lemma A.11"), "TV(P, Q)", value, ())


def expected_variation(shared: float) -> Bound:
    """Bound E_D TV(P_{W|D}, P_W) ≤ √(I(W;D) / 2) (Equation (2)).

    Under the discrete metric the Wasserstein distance is the total variation.
    """
    value = math.sqrt(information("the information", shared) / 2)
    return Bound("Equation (2) (eq:wass_reduce)", "E_D TV(P_{W|D}, P_W)", value, ())


def expected_squared_variation(shared: float) -> Bound:
    """Bound E_D TV²(P_{Z|D}, P_Z) ≤ I(Z;D) / 2 (Theorems A.16, A.17, discrete metric)."""
    value = information("the information", shared) / 2
    return Bound(printed("Theorem A.16"), "E_D TV²(P_{Z|D}, P_Z)", value, ())
