"""Bounds on the gap between the risk on training samples and the true risk.

L′(W) is the mean loss over the n samples of each of the m training domains, S all the samples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from shiftproof.core.errors import InvalidValue
from shiftproof.theory.lemmas import second_moment
from shiftproof.theory.source import (
    LIPSCHITZ_IN_WEIGHTS,
    expected_source_gap_wasserstein,
    mean_root,
)
from shiftproof.theory.statement import (
    BOUNDED,
    SAME_LAW,
    TRAINING_INDEPENDENT,
    Bound,
    TailBound,
    count,
    positive,
    printed,
)

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
    learned = mean_root(information_per_domain, loss_bound)
    memorised = [mean_root(samples, loss_bound) for samples in information_per_sample]
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
    size = count("training domains", domains) * count("samples", samples)
    needs = (BOUNDED, CONDITIONALLY_INDEPENDENT)
    return _concentrated("|L′(W) − L_s(W)|", sample_information, loss_bound, size, needs)


def empirical_gap_to_average(
    sample_information: float, loss_bound: float, domains: int
) -> TailBound:
    """Bound Pr{|L′(W) − L(W)| ≥ ε} ≤ (M²/(mε²)) (I(W;S) + log 3) (Theorem A.18, corrected).

    See `empirical_gap`: more samples per domain do not help here, more domains do.
    """
    size = count("training domains", domains)
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
    sigma = positive("the bound of the loss", loss_bound) / (2 * math.sqrt(size))
    square = second_moment(sample_information, sigma).value
    return TailBound(printed("Theorem A.18"), gap_of, math.sqrt(square), 2, needs)


def _expected(
    number: str, learned: float, memorised: Sequence[float], domains: int, loss: str
) -> Bound:
    """Bound the expected gap by the domain term plus the mean of the sample terms."""
    if domains != len(memorised):
        raise InvalidValue(f"{domains} domains are given, but samples of {len(memorised)}")
    value = learned + math.fsum(memorised) / len(memorised)
    needs = (loss, SAME_LAW, CONDITIONALLY_INDEPENDENT)
    return Bound(printed(number), "|E[L′(W)] − E[L(W)]|", value, needs)
