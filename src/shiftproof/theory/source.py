"""Bounds on the gap between the training domains and the average domain.

L_s(W) is the mean risk over the m training domains, L(W) the risk averaged over all domains.
W depends on the training domains, and I(W;D_i) measures how much it depends on domain i.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from shiftproof.theory.statement import (
    BOUNDED,
    SAME_LAW,
    TRAINING_INDEPENDENT,
    Bound,
    TailBound,
    distances,
    information,
    informations,
    nonnegative,
    positive,
    printed,
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
    return Bound(
        printed("Theorem III.2"),
        "|E[L_s(W)] − E[L(W)]|",
        mean_root(information_per_domain, loss_bound),
        (BOUNDED, SAME_LAW),
    )


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
    scale = mean_root(information_per_domain, loss_bound)
    scale += nonnegative("the spread of risks over domains", spread)
    return TailBound(printed("Theorem III.2"), "|L_s(W) − L(W)|", scale, 1, (BOUNDED, SAME_LAW))


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
    steps = informations("the information of a step", information_per_step)
    start = information("the information of the initial weights", initial_information)
    needs = (TRAINING_INDEPENDENT, FRESH_BATCHES) if per_domain else (UNITED_UPDATES,)
    return Bound(
        printed("Theorem III.3"), "I(W_T;D_i)", start + math.fsum(steps), (UNSEEN_START, *needs)
    )


def expected_source_gap_wasserstein(
    distance_per_domain: Sequence[float], lipschitz: float
) -> Bound:
    """Bound |E[L_s(W)] − E[L(W)]| ≤ (β′/m) Σᵢ E W(P_{W|D_i}, P_W) (Theorem III.4).

    For the discrete metric, W is the total variation and β′ = M; with `expected_variation` this is
    `expected_source_gap` again.
    """
    moved = distances("a Wasserstein distance", distance_per_domain)
    value = positive("the Lipschitz constant", lipschitz) * math.fsum(moved) / len(moved)
    return Bound(
        printed("Theorem III.4"),
        "|E[L_s(W)] − E[L(W)]|",
        value,
        (LIPSCHITZ_IN_WEIGHTS, SAME_LAW),
    )


def mean_root(information_per_domain: Sequence[float], loss_bound: float) -> float:
    """Return (1/m) Σᵢ √(M² Iᵢ / 2), a term of the information bounds on training domains."""
    known = informations("the information about a domain", information_per_domain)
    bound = positive("the bound of the loss", loss_bound)
    return bound * math.fsum(math.sqrt(value / 2) for value in known) / len(known)
