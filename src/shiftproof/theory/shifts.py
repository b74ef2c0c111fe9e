"""Lemmas on information, the parts of a shift, and the distance of distributions by matching.

The b points of a domain in one dimension, each with a Gaussian kernel of standard deviation σ, give
its density estimate P̄.  Any pairing of the points of two domains bounds the distance between their
estimates (Theorem IV.2), sorting is the best pairing (Theorem IV.3), and PDM
(`shiftproof.matching.pdm`) is its penalty.
"""

from __future__ import annotations

import math

from shiftproof.core.errors import InvalidValue
from shiftproof.theory import checks
from shiftproof.theory.statement import SAME_LAW, Bound, TailBound

SUBGAUSSIAN_PAIR = "f(X, Ȳ) is σ-sub-Gaussian, with Ȳ distributed as Y but independent of X."
SUBGAUSSIAN_EACH = "f(x, Y) is σ-sub-Gaussian for each x."
CENTRED = "X is σ-sub-Gaussian with mean 0."


def expectation_gap(shared: float, subgaussian: float) -> Bound:
    """Bound |E f(X,Y) − E f(X,Ȳ)| ≤ √(2σ² I(X;Y)) (Lemma A.6, first part).

    With KL(Q ‖ P) in place of I(X;Y) it bounds |E_Q f − E_P f| (Lemma A.9, first part).

    >>> round(expectation_gap(0.02, subgaussian=0.5).value, 6)
    0.1
    """
    sigma = checks.positive("the sub-Gaussian parameter", subgaussian)
    value = sigma * math.sqrt(2 * checks.nonnegative("the information", shared))
    return Bound("Lemma A.6", "|E f(X,Y) − E f(X,Ȳ)|", value, (SUBGAUSSIAN_PAIR,))


def second_moment(shared: float, subgaussian: float) -> Bound:
    """Bound E[(f(X,Y) − E f(X,Ȳ))²] ≤ 4σ² (I(X;Y) + log 3) (Lemma A.6, second part).

    With KL(Q ‖ P) in place of I(X;Y) it bounds E_Q[(f − E_P f)²] (Lemma A.9, second part).
    log 3 could be ½ log 2, as E exp(λX²) ≤ (1 − 2λσ²)^(−½); the paper's constant is kept.
    """
    sigma = checks.positive("the sub-Gaussian parameter", subgaussian)
    value = 4 * sigma**2 * (checks.nonnegative("the information", shared) + math.log(3))
    return Bound("Lemma A.6", "E[(f(X,Y) − E f(X,Ȳ))²]", value, (SUBGAUSSIAN_EACH,))


def deviation(shared: float, subgaussian: float) -> TailBound:
    """Bound the probability of a large |f(X,Y) − E f(X,Ȳ)| by `second_moment` (Lemma A.6).

    With KL(Q ‖ P) it bounds the probability of a large |f(X′) − E_P f| for X′ ~ Q (Lemma A.9,
    third part).
    """
    scale = math.sqrt(second_moment(shared, subgaussian).value)
    return TailBound("Lemma A.6", "|f(X,Y) − E f(X,Ȳ)|", scale, 2, (SUBGAUSSIAN_EACH,))


def exponential_square(rate: float, subgaussian: float) -> Bound:
    """Bound E exp(λX²) ≤ 1 + 8λσ² for 0 ≤ λ < 1/(4σ²) (Lemma A.7)."""
    sigma = checks.positive("the sub-Gaussian parameter", subgaussian)
    scaled = checks.nonnegative("the rate λ", rate) * sigma**2
    if not scaled < 1 / 4:
        raise InvalidValue(f"the rate λ must be below 1/(4σ²) = {1 / (4 * sigma**2)}, not {rate}")
    return Bound("Lemma A.7", "E exp(λX²)", 1 + 8 * scaled, (CENTRED,))


def variation(divergence: float) -> Bound:
    """Bound TV(P, Q) ≤ √(KL(Q ‖ P) / 2) (Pinsker's inequality, Lemma A.11)."""
    value = math.sqrt(checks.nonnegative("a divergence", divergence) / 2)
    return Bound("Lemma A.11", "TV(P, Q)", value, ())


def expected_variation(shared: float) -> Bound:
    """Bound E_D TV(P_{W|D}, P_W) ≤ √(I(W;D) / 2) (Equation (2)).

    Under the discrete metric the Wasserstein distance is the total variation.
    """
    value = math.sqrt(checks.nonnegative("the information", shared) / 2)
    return Bound("Equation (2) (eq:wass_reduce)", "E_D TV(P_{W|D}, P_W)", value, ())


def expected_squared_variation(shared: float) -> Bound:
    """Bound E_D TV²(P_{Z|D}, P_Z) ≤ I(Z;D) / 2 (Theorems A.16, A.17, discrete metric)."""
    value = checks.nonnegative("the information", shared) / 2
    return Bound("Theorem A.16", "E_D TV²(P_{Z|D}, P_Z)", value, ())


MARKOV = "R is computed from X alone, without Y and D."
RATIO_BOUNDED = "The two densities differ by a factor of at most B everywhere."
FRESH_SAMPLE = "The training domain's sample is one that W was not trained on."


def distribution_shift(covariate_shift: float, concept_shift: float) -> float:
    """Return I(Z;D) = I(X;D) + I(Y;D|X) (Equation (1)), or the same with R in place of X.

    >>> round(distribution_shift(0.001426, 0.008541), 6)
    0.009967
    """
    return _sum(covariate_shift, concept_shift)


def distribution_shift_by_label(label_shift: float, conditional_shift: float) -> float:
    """Return I(R,Y;D) = I(Y;D) + I(R;D|Y), the anti-causal order (Appendix A)."""
    return _sum(label_shift, conditional_shift)


def conditional_shift(kept_of_input: float, kept_of_label: float) -> Bound:
    """Bound I(R;D|Y) ≤ I(R;X) − I(R;Y), the information bottleneck (Appendix A).

    Args:
        kept_of_input: I(R;X).
        kept_of_label: I(R;Y), at most I(R;X) because R is computed from X.
    """
    of_input = checks.nonnegative("I(R;X)", kept_of_input)
    of_label = checks.nonnegative("I(R;Y)", kept_of_label)
    if of_label > of_input:
        raise InvalidValue(f"I(R;Y) cannot exceed I(R;X), but {of_label} is above {of_input}")
    return Bound("Appendix A, information bottleneck", "I(R;D|Y)", of_input - of_label, (MARKOV,))


def concept_shift_floor(concept_shift: float, label_entropy: float = 0.0) -> Bound:
    """Bound the average cross-entropy of any predictor from below (Proposition III.1).

    KL(P_{Y|X,D} ‖ Q_{Y|X}) ≥ I(Y;D|X), with equality only for Q = P_{Y|X}.  The cross-entropy is
    that divergence plus H(Y|X,D).

    Args:
        concept_shift: I(Y;D|X).
        label_entropy: H(Y|X,D); with 0, the bound is on the divergence alone.
    """
    value = _sum(concept_shift, label_entropy)
    return Bound("Proposition III.1", "the average cross-entropy, from below", value, (SAME_LAW,))


def predictor_divergence(lost: float, classifier_divergence: float) -> Bound:
    """Bound a predictor's divergence by those of its parts (Proposition III.1, second part).

    KL(P_{Y|X,D=d} ‖ Q_{Y|X}) ≤ I(X;Y|R,D=d) + KL(P_{Y|R,D=d} ‖ Q_{Y|R}), with equality for a
    deterministic encoder.

    Args:
        lost: I(X;Y|R,D=d), the information about the label that the encoder loses.
        classifier_divergence: KL(P_{Y|R,D=d} ‖ Q_{Y|R}).
    """
    value = _sum(lost, classifier_divergence)
    return Bound("Proposition III.1", "KL(P_{Y|X,D=d} ‖ Q_{Y|X})", value, (MARKOV,))


def proxy_divergence(learned: float, density_ratio: float) -> Bound:
    """Bound SKL(P_{R,D} ‖ P_{R_i,D_i}) ≤ log(B) √(2 I(W;D_i)) (Proposition III.7).

    The divergence measures how much training domain i differs from all domains.  The same holds for
    SKL(P_{R,X,Y} ‖ P_{R_i,X_i,Y_i}) (Proposition A.13).  SKL is the sum of KL in both directions.

    Correction to the text, which assumes only that the two distributions have the same null sets
    and concludes that their density ratio is bounded.  It need not be, and the constant depends on
    its bound B.  Without B, KL(P_{R_i,D_i} ‖ P_{R,D}) ≤ I(W;D_i) still holds, because the same
    channel leads from (W, D) to (R, D) in both; only the other direction needs B.

    Args:
        learned: I(W;D_i).  For a sample that W was trained on, I(W;X_i,D_i).
        density_ratio: B ≥ 1, with 1/B ≤ P_{R,D} / P_{R_i,D_i} ≤ B.
    """
    if not density_ratio >= 1:
        raise InvalidValue(
            f"the bound on the ratio of densities must be at least 1, not {density_ratio}"
        )
    value = math.log(density_ratio) * math.sqrt(2 * checks.nonnegative("I(W;D_i)", learned))
    needs = (SAME_LAW, RATIO_BOUNDED, FRESH_SAMPLE)
    return Bound("Proposition III.7", "SKL(P_{R,D} ‖ P_{R_i,D_i})", value, needs)


def _sum(one: float, other: float) -> float:
    return checks.nonnegative("a part of a shift", one) + checks.nonnegative(
        "a part of a shift", other
    )


KERNELS = "The distributions are the density estimates with Gaussian kernels of that bandwidth."
TWO_DOMAINS = "PDM compares two domains in one dimension."
EQUAL_DOMAINS = "PDM compares any number of equally likely domains in one dimension."


def kernel_divergence(penalty: float, bandwidth: float) -> Bound:
    """Bound KL(P̄ ‖ Q̄) ≤ (1/b) Σⱼ (x¹₍j₎ − x²₍j₎)² / (2σ²) = 2 PDM₂ / σ² (Theorems IV.2, IV.3)."""
    value = (
        2
        * checks.nonnegative("a penalty", penalty)
        / checks.positive("the bandwidth", bandwidth) ** 2
    )
    return Bound("Theorem IV.2", "KL(P̄ ‖ Q̄)", value, (KERNELS, TWO_DOMAINS))


def kernel_distance(penalty: float) -> Bound:
    """Bound W(P̄, Q̄) ≤ (1/b) Σⱼ |x¹₍j₎ − x²₍j₎| = 2 PDM₁ (Theorems IV.2, IV.3)."""
    value = 2 * checks.nonnegative("a penalty", penalty)
    return Bound("Theorem IV.2", "W(P̄, Q̄)", value, (KERNELS, TWO_DOMAINS))


def kernel_information(penalty: float, bandwidth: float) -> Bound:
    """Bound I(R;D) ≤ PDM₂ / (2σ²), for any number of domains (from Theorem IV.2).

    I(R;D) is the mean over domains of KL(P̄ᵢ ‖ their mixture), and no other distribution gives a
    smaller mean than the mixture; the bound uses the density estimate of the mean points x̄₍j₎.
    For a penalty averaged over dimensions, this bounds the average information of the dimensions,
    not their joint information.
    """
    value = checks.nonnegative("a penalty", penalty) / (
        2 * checks.positive("the bandwidth", bandwidth) ** 2
    )
    return Bound("Theorem IV.2", "I(R;D)", value, (KERNELS, EQUAL_DOMAINS))
