"""Bounds on the gap between the average domain and the test domains.

The predictor does not depend on the test domains.  L_t(w) is the mean risk over the m′ test
domains, L(w) the risk averaged over all domains.
"""

from __future__ import annotations

import math

from shiftproof.theory.statement import (
    BOUNDED,
    FIXED,
    METRIC,
    SAME_LAW,
    SUBGAUSSIAN,
    TEST_INDEPENDENT,
    Bound,
    TailBound,
    count,
    information,
    nonnegative,
    positive,
    printed,
)

LIPSCHITZ_IN_DATA = "The loss is β-Lipschitz in the data (x, y), in the metric of the distances."
LIPSCHITZ_BETWEEN = "The loss between two predictors of the class is β-Lipschitz in x."
OF_THE_ENCODER = (
    "I(R;D) and L* are those of the encoder in use, or their means over its randomness."
)
ONE_REFERENCE = "The reference predictor f* does not depend on the test domains."


def target_gap(shift: float, subgaussian: float) -> TailBound:
    """Bound Pr{|L_t(w) − L(w)| ≥ ε} ≤ (σ/ε) √(2 I(Z;D)) (Theorem III.5).

    For a classifier on a representation, I(R,Y;D) replaces I(Z;D).  The test domains may depend on
    each other.  By the same proof, the square of the right-hand side is also a bound
    (`target_gap_independent` with one domain), and a tighter one wherever it is below 1.

    Args:
        shift: I(Z;D), or I(R,Y;D).
        subgaussian: σ; M/2 for a loss in [0, M].
    """
    scale = _deviation(shift, subgaussian)
    needs = (SUBGAUSSIAN, SAME_LAW, FIXED)
    return TailBound(printed("Theorem III.5"), "|L_t(w) − L(w)|", scale, 1, needs)


def target_gap_independent(shift: float, subgaussian: float, domains: int) -> TailBound:
    """Bound Pr{|L_t(w) − L(w)| ≥ ε} ≤ 2σ² I(Z;D) / (m′ε²) (Theorem A.14).

    For one domain (m′ = 1), no independence is needed.
    """
    scale = _deviation(shift, subgaussian) / math.sqrt(count("test domains", domains))
    needs = (SUBGAUSSIAN, SAME_LAW, FIXED, TEST_INDEPENDENT)
    return TailBound(printed("Theorem A.14"), "|L_t(w) − L(w)|", scale, 2, needs)


def expected_target_gap(covariate_shift: float, loss_bound: float, label_noise: float) -> Bound:
    """Bound E|L_D(ψ) − L(ψ)| ≤ (M/√2) √I(R;D) + 2L* (by-product of Theorem III.6).

    Correction to the text, which states it for a learned W without specifying I(R;D): for a random
    encoder, I(R;D|W) and E[L*] over W are needed.  The I(R;D) of representations mixed over
    encoders can be 0 while the gap is not.

    Args:
        covariate_shift: I(R;D).
        loss_bound: M.
        label_noise: L* = min over all f: R → Y of the average risk L(f).
    """
    moved = _deviation(covariate_shift, positive("the bound of the loss", loss_bound) / 2)
    value = moved + 2 * nonnegative("the label noise L*", label_noise)
    needs = (BOUNDED, METRIC, SAME_LAW, FIXED, OF_THE_ENCODER)
    return Bound(printed("Theorem III.6"), "E|L_D(ψ) − L(ψ)|", value, needs)


def target_gap_representation(
    covariate_shift: float, loss_bound: float, label_noise: float
) -> TailBound:
    """Bound Pr{|L_t(ψ) − L(ψ)| ≥ ε} ≤ (M/(ε√2)) √I(R;D) + 2L*/ε (Theorem III.6).

    The text states one side, L_t − L ≥ ε; its proof gives both, and Equation (3) needs both.  The σ
    of the restated theorem is M/2.  For the arguments, see `expected_target_gap`.
    """
    mean = expected_target_gap(covariate_shift, loss_bound, label_noise)
    return TailBound(mean.statement, "|L_t(ψ) − L(ψ)|", mean.value, 1, mean.assumptions)


def target_gap_representation_independent(
    covariate_shift: float, loss_bound: float, domains: int, reference_risk: float
) -> TailBound:
    """Bound Pr{L_t(ψ) − L(ψ) ≥ ε + L*} ≤ M² I(R;D) / (2m′ε²) (Theorem A.15).

    Correction to the text, where L* = min over f of L_t(f) + L(f): that f depends on the test
    domains, so Chebyshev's inequality for a fixed f does not apply (for m′ = 1 a bound on the total
    variation does).  Here f* is any predictor fixed in advance, such as the minimiser of L.
    The text's I(X;D) can be replaced by the smaller I(R;D), and its σ is M/2.

    Args:
        covariate_shift: I(R;D), or I(X;D).
        loss_bound: M.
        domains: m′.
        reference_risk: L_t(f*) + L(f*).
    """
    scale = _deviation(covariate_shift, positive("the bound of the loss", loss_bound) / 2)
    return TailBound(
        printed("Theorem A.15"),
        "L_t(ψ) − L(ψ)",
        scale / math.sqrt(count("test domains", domains)),
        2,
        (BOUNDED, METRIC, SAME_LAW, FIXED, TEST_INDEPENDENT, ONE_REFERENCE),
        nonnegative("a risk", reference_risk),
    )


def target_gap_wasserstein(
    mean_squared_distance: float, lipschitz: float, domains: int
) -> TailBound:
    """Bound Pr{|L_t(w) − L(w)| ≥ ε} ≤ β² E W²(P_{Z|D}, P_Z) / (m′ε²) (Theorem A.16).

    For the discrete metric E W² ≤ I(Z;D)/2 (`expected_squared_variation`) and β = M.

    Corrections to the text: Assumption II.5 must read |ℓ(z₁) − ℓ(z₂)| ≤ β c(z₁, z₂), not a sum, and
    the factor 1/m′ needs test domains independent of each other, not only of the training domains.
    """
    scale = _transported(mean_squared_distance, lipschitz, domains)
    needs = (LIPSCHITZ_IN_DATA, SAME_LAW, FIXED, TEST_INDEPENDENT)
    return TailBound(printed("Theorem A.16"), "|L_t(w) − L(w)|", scale, 2, needs)


def target_gap_representation_wasserstein(
    mean_squared_distance: float, lipschitz: float, domains: int, reference_risk: float
) -> TailBound:
    """Bound Pr{L_t(w) − L(w) ≥ ε + L*} ≤ β² E W²(P_{X|D}, P_X) / (m′ε²) (Theorem A.17).

    The text's L* is corrected as in `target_gap_representation_independent`, and the
    independence of test domains as in `target_gap_wasserstein`.
    """
    scale = _transported(mean_squared_distance, lipschitz, domains)
    needs = (LIPSCHITZ_BETWEEN, METRIC, SAME_LAW, FIXED, TEST_INDEPENDENT, ONE_REFERENCE)
    offset = nonnegative("a risk", reference_risk)
    return TailBound(printed("Theorem A.17"), "L_t(w) − L(w)", scale, 2, needs, offset)


def risk_gap(risk_shift: float, loss_bound: float, domains: int = 1) -> TailBound:
    """Bound Pr{|L_t(w) − L(w)| ≥ ε} ≤ M² I(L;D) / (2m′ε²) (Appendix A, after Theorem A.17).

    L is the loss of one sample, a single number however large the data.  It is a function of
    (R, Y), which is a function of Z, so I(L;D) ≤ I(R,Y;D) ≤ I(Z;D): this bound is never looser
    than the bounds with these, but not "strictly tighter" as the text says (they are equal if
    different samples have different losses).

    Args:
        risk_shift: I(L;D).
        loss_bound: M.
        domains: m′, the number of test domains, which must be independent of each other.  The text
            uses m′ = 1, which needs no independence.
    """
    shift = information("the shift of the risk", risk_shift)
    independent = (TEST_INDEPENDENT,) if count("test domains", domains) > 1 else ()
    return TailBound(
        "Section A, risk shift (after Theorem A.17)",
        "|L_t(w) − L(w)|",
        positive("the bound of the loss", loss_bound) * math.sqrt(shift / (2 * domains)),
        2,
        (BOUNDED, SAME_LAW, FIXED, *independent),
    )


def _deviation(shift: float, subgaussian: float) -> float:
    sigma = positive("the sub-Gaussian parameter", subgaussian)
    return sigma * math.sqrt(2 * information("a shift", shift))


def _transported(mean_squared_distance: float, lipschitz: float, domains: int) -> float:
    squared = nonnegative("a mean squared distance", mean_squared_distance)
    beta = positive("the Lipschitz constant", lipschitz)
    return beta * math.sqrt(squared / count("test domains", domains))
