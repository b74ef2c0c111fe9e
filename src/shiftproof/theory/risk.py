"""The shift of the risk itself: a number per sample, however large the data."""

from __future__ import annotations

import math

from shiftproof.theory.statement import (
    BOUNDED,
    FIXED,
    SAME_LAW,
    TEST_INDEPENDENT,
    TailBound,
    count,
    information,
    positive,
)


def risk_gap(risk_shift: float, loss_bound: float, domains: int = 1) -> TailBound:
    """Bound Pr{|L_t(w) − L(w)| ≥ ε} ≤ M² I(L;D) / (2m′ε²) (the appendix, after Theorem A.17).

    L is the loss of one sample.  L is a function of (R, Y), itself one of Z, so that
    I(L;D) ≤ I(R,Y;D) ≤ I(Z;D): never looser than the bounds with those, though not "strictly
    tighter" as the text says (a loss that tells the samples apart loses nothing).

    Args:
        risk_shift: I(L;D).
        loss_bound: M.
        domains: m′, where the test domains are independent of each other.  The text has m′ = 1,
            which holds without.
    """
    bound = positive("the bound of the loss", loss_bound)
    shift = information("the shift of the risk", risk_shift)
    independent = (TEST_INDEPENDENT,) if count("test domains", domains) > 1 else ()
    return TailBound(
        "Section A, risk shift (after Theorem A.17)",
        "|L_t(w) − L(w)|",
        bound * math.sqrt(shift / (2 * domains)),
        2,
        (BOUNDED, SAME_LAW, FIXED, *independent),
    )
