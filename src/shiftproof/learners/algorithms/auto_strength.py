"""Automatic matching strength (`auto`), set on the held-out parts of the training domains.

Training starts as ERM.  After the warm-up, `LOOKS` looks are spaced evenly over the rest of the
run.  Each look tests whether the outputs on held-out samples mean the same in every domain
(`concept_test`).

**Whether to match.**  Matching starts at the first look with p ≤ `ALPHA` / `LOOKS`, where Adam
restarts.  Until then training does not depend on any look, so by Bonferroni's inequality a run
without concept shift starts to match with probability at most `ALPHA`.  A run that never starts to
match is ERM, bit for bit.

**How strongly.**  The effect of a fixed λ depends on the network and the dataset.  So

    λ = κ · (1 − γ)^(p−1) · L₀ / P₀,

with L₀ and P₀ the risk and PDM of order p of the first matched batch, and γ the memory.  κ = 1
makes the penalty as large as the risk (`matching.term`).  The unit is fixed at that step:
gradients that become alike become small, so a unit that followed them would grow without bound.
At every look with p ≤ `ALPHA`, κ is multiplied by `FACTOR`.  If the information about the label
falls below a share `LEFT` of that before matching, matching is too strong: training goes back to
the weights before matching and to the last κ, and the factor becomes its square root.  So κ
approaches the largest strength that keeps some information.  Gradients are matched only with those
of earlier batches (`matching.match`), because chance differences between batches would dominate a
strong penalty.  With `representation_weight="auto"`, the representation term keeps κ = 1.

**Which weights.**  With a penalty many times as large as the risk, training does not converge: the
features that it removes come and go (`strength_looks` describes the remedy).  At every look, the
current weights and some interpolated with those of the last look are candidates.  The run ends with
the candidate that has the largest

    B(max(p, ALPHA / LOOKS)) · (H − R),   B(p) = −e p log p for p < 1/e, else 1.

H − R is the information in nats that the outputs hold about the label: H is the risk of predicting
the class shares, R the risk of the calibrated outputs.  B(p) bounds the evidence against "the
outputs mean the same in every domain": no alternative has a larger likelihood ratio than 1 / B
(Sellke, Bayarri and Berger, 2001).  Below ALPHA / LOOKS or above 1/e, candidates are not ranked by
p.  The weights before matching are a candidate.  Weights whose predictions are no better than
chance in some domain are not (`concept_test.informed`), because uninformative outputs mean the same
everywhere.  So matching that gains nothing is undone.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

from shiftproof.learners.algorithms.concept_test import (
    HeldOut,
    calibrated,
    informed,
    permutation_p,
    welch_p,
)
from shiftproof.matching.term import unit_weight

# The probability of matching without concept shift, over all looks of a run.
ALPHA = 0.05
# Enough looks to see the effect of matching soon, few enough for each test to have power.
LOOKS = 20
# Twice the minimum, so that p = ALPHA / LOOKS allows one permutation as extreme.
PERMUTATIONS = round(2 * LOOKS / ALPHA) - 1
# Doubling reaches any strength in a few looks.
FACTOR = 2.0
# An invariant model would not lose an order of magnitude of information.
LEFT = 0.1


class Verdict(Enum):
    """The decision at a look."""

    NOTHING = "go on"
    BEGIN = "matching begins here"
    BACK = "matching has run away: go back to where it began"


@dataclass
class AutoStrength:
    """The matching strength of one run.

    `kappa` is 0 before matching starts, and is multiplied by `factor`.  `units` are the weights λ
    at κ = 1, by term.  `information` is H − R before matching, and `score` the score of the best
    candidate so far.
    """

    kappa: float = 0.0
    units: dict[str, float] = field(default_factory=dict)
    factor: float = FACTOR
    information: float = 0.0
    score: float = 0.0

    @property
    def matches(self) -> bool:
        """Whether matching has started."""
        return self.kappa > 0

    def weight(self, term: str) -> float:
        """Return λ of a term."""
        return self.units[term] * (self.kappa if term == "gradient" else 1.0)

    def begin(self, term: str, risk: float, penalty: float, gamma: float, order: int) -> None:
        """Fix the unit of a term at its first matched step."""
        self.units[term] = unit_weight(risk, penalty, gamma, order)

    def look(self, held_out: HeldOut, *, seed: int = 0) -> Verdict:
        """Decide how strongly to match, given the held-out outputs of the current weights."""
        found = calibrated(held_out)
        p, information = welch_p(found.t, held_out), found.guess - found.risk
        if not self.matches:
            level = ALPHA / LOOKS
            if p > level or permutation_p(found.t, held_out, PERMUTATIONS, seed) > level:
                return Verdict.NOTHING
            self.kappa, self.information = 1.0, information
            return Verdict.BEGIN
        if information < LEFT * self.information:
            self.kappa /= self.factor
            self.factor = math.sqrt(self.factor)
            return Verdict.BACK
        if p <= ALPHA:
            self.kappa *= self.factor
        return Verdict.NOTHING

    def is_best(self, held_out: HeldOut) -> bool:
        """Whether the weights with these held-out outputs are the best candidate so far."""
        found = calibrated(held_out)
        support = null_support(max(welch_p(found.t, held_out), ALPHA / LOOKS))
        score = support * (found.guess - found.risk)
        if score <= self.score or not informed(held_out, ALPHA / LOOKS):
            return False
        self.score = score
        return True

    def state(self) -> dict[str, Any]:
        """Return all state that changes."""
        return asdict(self)

    def load(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        for name in asdict(self):
            setattr(self, name, state[name])


def null_support(p: float) -> float:
    """Return B(p), the lower bound of the likelihood ratio of null hypothesis to alternative.

    >>> round(null_support(0.05), 2), null_support(0.5)
    (0.41, 1.0)
    """
    return -math.e * p * math.log(p) if p < 1 / math.e else 1.0


def planned_looks(start: int, steps: int) -> tuple[int, ...]:
    """Return the steps after which to look: `LOOKS` times from `start` on, and at the last step.

    >>> planned_looks(300, 1000)[:3], planned_looks(300, 1000)[-2:]
    ((300, 335, 370), (965, 1000))
    """
    if start >= steps:
        return ()
    looks = {max(1, start + j * (steps - start) // LOOKS) for j in range(LOOKS)}
    return (*sorted(looks - {steps}), steps)
