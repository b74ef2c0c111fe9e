"""Bounds on the gaps between training domains, the average domain and test domains.

L_s(W) is the mean risk over the m training domains, L(W) the risk averaged over all domains, and
L_t(w) the mean risk over the m′ test domains.  W depends on the training domains, and I(W;D_i)
measures how much it depends on domain i; the predictor does not depend on the test domains.  L′(W)
is the mean loss over the n samples of each training domain, S all the samples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from shiftproof.core.errors import InvalidValue
from shiftproof.theory import checks
from shiftproof.theory.shifts import second_moment
from shiftproof.theory.statement import (
    BOUNDED,
    FIXED,
    METRIC,
    SAME_LAW,
    SUBGAUSSIAN,
    TEST_APART,
    TEST_INDEPENDENT,
    TRAINING_INDEPENDENT,
    Bound,
    TailBound,
)

LIPSCHITZ_IN_WEIGHTS = "The loss is β′-Lipschitz in the hypothesis, in the metric of the distances."
FRESH_BATCHES = "Each step draws new samples from the domain: no sample is used twice."
UNSEEN_START = "The initial weights carry at most the stated information about the domain."
UNITED_UPDATES = "The information is that of the whole update, from all domains together."


def expected_source_gap(information_per_domain: Sequence[float], loss_bound: float) -> Bound:
    """Bound |E[L_s(W)] − E[L(W)]| ≤ (1/m) Σᵢ √(M² I(W;D_i) / 2) (Theorem III.2, first part).

    >>> round(expected_source_gap([0.02, 0.08], loss_bound=1.0).value, 6)
    0.15
    """
    value = _mean_root(information_per_domain, loss_bound)
    return Bound("Theorem III.2", "|E[L_s(W)] − E[L(W)]|", value, (BOUNDED, SAME_LAW))


def source_gap(
    information_per_domain: Sequence[float], loss_bound: float, spread: float
) -> TailBound:
    """Bound the probability of a large |L_s(W) − L(W)| (Theorem III.2).

    Pr{|L_s(W) − L(W)| ≥ ε} ≤ (1/ε) [(M/√2) (1/m) Σᵢ √I(W;D_i) + E|L_D(W) − L(W)|].

    Args:
        information_per_domain: I(W;D_i) of each training domain.
        loss_bound: M.
        spread: E|L_D(W) − L(W)| for a domain D independent of W; `expected_target_gap` bounds it.
    """
    scale = _mean_root(information_per_domain, loss_bound)
    scale += checks.nonnegative("the spread of risks over domains", spread)
    return TailBound("Theorem III.2", "|L_s(W) − L(W)|", scale, 1, (BOUNDED, SAME_LAW))


def learned_information(
    information_per_step: Sequence[float],
    initial_information: float = 0.0,
    *,
    per_domain: bool = False,
) -> Bound:
    """Bound I(W_T;D_i) ≤ I(W_0;D_i) + Σₜ I(G_t;D_i|W_{t−1}) (Theorem III.3).

    The proof only needs W_t = W_{t−1} + G_t, so it covers Adam and momentum as well as SGD.

    Corrections to the text.  It assumes I(W_0;D_i) = 0 without saying so; initial weights trained
    on the same domains violate this.  Its second part, with the gradient G_t^i of domain i alone
    (`per_domain`), claims to need only independent domains.  It also needs new samples at every
    step: given W_{t−1}, which depends on all domains, the other gradients carry information about
    D_i.  If samples are reused, the information of the whole update is needed.

    Args:
        information_per_step: I(G_t;D_i|W_{t−1}) of each step, or I(G_t^i;D_i|W_{t−1}) with
            `per_domain`.
        initial_information: I(W_0;D_i).
        per_domain: whether the information is that of the gradient of domain i alone.
    """
    steps = checks.amounts("the information of a step", information_per_step)
    start = checks.nonnegative("the information of the initial weights", initial_information)
    needs = (TRAINING_INDEPENDENT, FRESH_BATCHES) if per_domain else (UNITED_UPDATES,)
    return Bound("Theorem III.3", "I(W_T;D_i)", start + math.fsum(steps), (UNSEEN_START, *needs))


def expected_source_gap_wasserstein(
    distance_per_domain: Sequence[float], lipschitz: float
) -> Bound:
    """Bound |E[L_s(W)] − E[L(W)]| ≤ (β′/m) Σᵢ E W(P_{W|D_i}, P_W) (Theorem III.4).

    For the discrete metric, W is the total variation and β′ = M; with `expected_variation` this is
    `expected_source_gap` again.
    """
    moved = checks.amounts("a Wasserstein distance", distance_per_domain)
    value = checks.positive("the Lipschitz constant", lipschitz) * math.fsum(moved) / len(moved)
    return Bound("Theorem III.4", "|E[L_s(W)] − E[L(W)]|", value, (LIPSCHITZ_IN_WEIGHTS, SAME_LAW))


def _mean_root(information_per_domain: Sequence[float], loss_bound: float) -> float:
    """Return (1/m) Σᵢ √(M² Iᵢ / 2), a term of the information bounds on training domains."""
    known = checks.amounts("the information about a domain", information_per_domain)
    bound = checks.positive("the bound of the loss", loss_bound)
    return bound * math.fsum(math.sqrt(value / 2) for value in known) / len(known)


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
    return TailBound("Theorem III.5", "|L_t(w) − L(w)|", scale, 1, needs)


def target_gap_independent(shift: float, subgaussian: float, domains: int) -> TailBound:
    """Bound Pr{|L_t(w) − L(w)| ≥ ε} ≤ 2σ² I(Z;D) / (m′ε²) (Theorem A.14).

    For one domain (m′ = 1), no independence is needed.
    """
    scale = _deviation(shift, subgaussian) / math.sqrt(checks.count("test domains", domains))
    needs = (SUBGAUSSIAN, SAME_LAW, FIXED, TEST_INDEPENDENT)
    return TailBound("Theorem A.14", "|L_t(w) − L(w)|", scale, 2, needs)


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
    moved = _deviation(covariate_shift, checks.positive("the bound of the loss", loss_bound) / 2)
    value = moved + 2 * checks.nonnegative("the label noise L*", label_noise)
    needs = (BOUNDED, METRIC, SAME_LAW, FIXED, OF_THE_ENCODER)
    return Bound("Theorem III.6", "E|L_D(ψ) − L(ψ)|", value, needs)


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
    scale = _deviation(covariate_shift, checks.positive("the bound of the loss", loss_bound) / 2)
    scale /= math.sqrt(checks.count("test domains", domains))
    needs = (BOUNDED, METRIC, SAME_LAW, FIXED, TEST_INDEPENDENT, ONE_REFERENCE)
    offset = checks.nonnegative("a risk", reference_risk)
    return TailBound("Theorem A.15", "L_t(ψ) − L(ψ)", scale, 2, needs, offset)


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
    return TailBound("Theorem A.16", "|L_t(w) − L(w)|", scale, 2, needs)


def target_gap_representation_wasserstein(
    mean_squared_distance: float, lipschitz: float, domains: int, reference_risk: float
) -> TailBound:
    """Bound Pr{L_t(w) − L(w) ≥ ε + L*} ≤ β² E W²(P_{X|D}, P_X) / (m′ε²) (Theorem A.17).

    The text's L* is corrected as in `target_gap_representation_independent`, and the
    independence of test domains as in `target_gap_wasserstein`.
    """
    scale = _transported(mean_squared_distance, lipschitz, domains)
    needs = (LIPSCHITZ_BETWEEN, METRIC, SAME_LAW, FIXED, TEST_INDEPENDENT, ONE_REFERENCE)
    offset = checks.nonnegative("a risk", reference_risk)
    return TailBound("Theorem A.17", "L_t(w) − L(w)", scale, 2, needs, offset)


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
    shift = checks.nonnegative("the shift of the risk", risk_shift)
    independent = (TEST_INDEPENDENT,) if checks.count("test domains", domains) > 1 else ()
    scale = checks.positive("the bound of the loss", loss_bound) * math.sqrt(shift / (2 * domains))
    statement, needs = "Section A, risk shift (after Theorem A.17)", (BOUNDED, SAME_LAW, FIXED)
    return TailBound(statement, "|L_t(w) − L(w)|", scale, 2, (*needs, *independent))


def _deviation(shift: float, subgaussian: float) -> float:
    sigma = checks.positive("the sub-Gaussian parameter", subgaussian)
    return sigma * math.sqrt(2 * checks.nonnegative("a shift", shift))


def _transported(mean_squared_distance: float, lipschitz: float, domains: int) -> float:
    squared = checks.nonnegative("a mean squared distance", mean_squared_distance)
    beta = checks.positive("the Lipschitz constant", lipschitz)
    return beta * math.sqrt(squared / checks.count("test domains", domains))


def split_chance(source: TailBound, target: TailBound, gap: float, split: float) -> float:
    """Bound Pr{|L_s(W) − L_t(W)| ≥ ε} by two terms (Proposition A.12).

    The bound is Pr{|L_s − L| ≥ λε} + Pr{|L_t − L| ≥ (1 − λ)ε}, for any λ = `split` in (0, 1).
    """
    checks.check_level(split)
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
    learned = _mean_root(information_per_domain, loss_bound)
    moved = expected_target_gap(covariate_shift, loss_bound, label_noise).value
    if split is None:
        scale = (math.sqrt(learned + moved) + math.sqrt(moved)) ** 2
    else:
        checks.check_level(split)
        scale = learned / split + moved / (split * (1 - split))
    needs = (BOUNDED, METRIC, SAME_LAW, TEST_APART, OF_THE_ENCODER)
    return TailBound("Equation (3) (eq:solution)", "|L_t(W) − L_s(W)|", scale, 1, needs)


CONDITIONALLY_INDEPENDENT = "Given the domains, the samples are independent of each other."


def expected_empirical_gap(
    information_per_domain: Sequence[float],
    information_per_sample: Sequence[Sequence[float]],
    loss_bound: float,
) -> Bound:
    """Bound |E[L′(W)] − E[L(W)]| by domains and samples (Theorem A.18, first part).

    The bound is (1/m) Σᵢ √(M² I(W;D_i)/2) + (1/mn) Σᵢⱼ √(M² I(W;Z_j^i|D_i)/2).

    Args:
        information_per_domain: I(W;D_i) of each of the m domains.
        information_per_sample: I(W;Z_j^i|D_i), m lists of n (or of nᵢ, if domain i has nᵢ samples
            and all domains have the same weight).
        loss_bound: M.
    """
    learned = _mean_root(information_per_domain, loss_bound)
    memorised = [_mean_root(samples, loss_bound) for samples in information_per_sample]
    domains = len(information_per_domain)
    return _expected("Theorem A.18", learned, memorised, domains, BOUNDED)


def empirical_gap(
    sample_information: float, loss_bound: float, domains: int, samples: int
) -> TailBound:
    """Bound Pr{|L′(W) − L_s(W)| ≥ ε} ≤ (M²/(mnε²)) (I(W;S|D_s) + log 3) (Theorem A.18, corrected).

    The text states this for the gap to L(W), the average over all domains (and prints expectations
    inside the probability).  But samples of one domain are independent only given that domain, so
    mn samples average out the variation of samples and not that of domains.  The right-hand side
    holds for L_s(W), the risk on the training domains themselves; `empirical_gap_to_average` holds
    for L(W).  Since I(W;S|D_s) ≤ I(W;S), the text's I(W;S) is also valid here.

    Args:
        sample_information: I(W;S|D_s), or I(W;S).
        loss_bound: M.
        domains: m.
        samples: n, for each domain.
    """
    size = checks.count("training domains", domains) * checks.count("samples", samples)
    needs = (BOUNDED, CONDITIONALLY_INDEPENDENT)
    return _concentrated("|L′(W) − L_s(W)|", sample_information, loss_bound, size, needs)


def empirical_gap_to_average(
    sample_information: float, loss_bound: float, domains: int
) -> TailBound:
    """Bound Pr{|L′(W) − L(W)| ≥ ε} ≤ (M²/(mε²)) (I(W;S) + log 3) (Theorem A.18, corrected).

    See `empirical_gap`: more samples per domain do not help here, more domains do.
    """
    size = checks.count("training domains", domains)
    needs = (BOUNDED, SAME_LAW, TRAINING_INDEPENDENT)
    return _concentrated("|L′(W) − L(W)|", sample_information, loss_bound, size, needs)


def expected_empirical_gap_wasserstein(
    distance_per_domain: Sequence[float],
    distance_per_sample: Sequence[Sequence[float]],
    lipschitz: float,
) -> Bound:
    """Bound |E[L′(W)] − E[L(W)]| by distances (Theorem A.19).

    The bound is (β′/m) Σᵢ E W(P_{W|D_i}, P_W) + (β′/mn) Σᵢⱼ E W(P_{W|D_i,Z_j^i}, P_{W|D_i}).
    """
    learned = expected_source_gap_wasserstein(distance_per_domain, lipschitz).value
    memorised = [
        expected_source_gap_wasserstein(samples, lipschitz).value for samples in distance_per_sample
    ]
    domains = len(distance_per_domain)
    return _expected("Theorem A.19", learned, memorised, domains, LIPSCHITZ_IN_WEIGHTS)


def _concentrated(
    gap_of: str, sample_information: float, loss_bound: float, size: int, needs: tuple[str, ...]
) -> TailBound:
    """Return the tail bound of Lemma A.6 for a mean of `size` independent values in [0, M]."""
    sigma = checks.positive("the bound of the loss", loss_bound) / (2 * math.sqrt(size))
    square = second_moment(sample_information, sigma).value
    return TailBound("Theorem A.18", gap_of, math.sqrt(square), 2, needs)


def _expected(
    number: str, learned: float, memorised: Sequence[float], domains: int, loss: str
) -> Bound:
    """Bound the expected gap by the domain term plus the mean of the sample terms."""
    if domains != len(memorised):
        raise InvalidValue(f"{domains} domains are given, but samples of {len(memorised)}")
    value = learned + math.fsum(memorised) / len(memorised)
    needs = (loss, SAME_LAW, CONDITIONALLY_INDEPENDENT)
    return Bound(number, "|E[L′(W)] − E[L(W)]|", value, needs)
