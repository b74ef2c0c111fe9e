"""How strongly to match, decided on the held-out parts of the training domains: `auto`.

Training begins as ERM.  From the end of the warm-up on, `LOOKS` looks are planned, evenly over the
rest of the run.  Each takes the outputs on held-out samples and tests whether they mean the same in
every domain (`concept_test`).

**Whether.**  Matching begins at the first look with p ≤ `ALPHA` / `LOOKS`, and Adam restarts there.
Until then nothing that was trained depends on a look, so by Bonferroni's inequality a run without
concept shift begins to match with a chance of at most `ALPHA`.  A run that does not begin is ERM,
to the last bit.

**How strongly.**  A fixed λ has another meaning for every network and dataset.  So

    λ = κ · (1 − γ)^(p−1) · L₀ / P₀,

with L₀ and P₀ the risk and PDM of order p of the first batch that is matched, and γ its memory.
κ = 1 makes the penalty as large as the risk (`matching.unit_weight`).  The unit is fixed at that
step: gradients that become alike become small, and a unit that followed them would grow without
bound.  At every look with p ≤ `ALPHA`, κ is multiplied by `FACTOR`.  If less than `LEFT` of the
information on the label is left that there was before matching, matching has run away: training
goes back to the weights before matching and to the last κ, and the factor becomes its square root.
So κ approaches the largest strength that leaves something.  Gradients are matched with those of
earlier batches alone (`matching.cross`): of a strong penalty, what batches differ in by chance
would be the larger part.  A representation weight `auto` keeps κ = 1.

**Which weights.**  A penalty many times as large as the risk does not settle: the features that it
removes come and go (`strength_looks` says what is done against that).  At every look the present
weights and some on the way from the last look are candidates, and the run ends with the candidate
that has the largest

    B(max(p, ALPHA / LOOKS)) · (H − R),   B(p) = −e p log p for p < 1/e, else 1.

H − R is the information in nats that the outputs hold on the label: H is the risk of a guess by the
class shares, R the risk of the calibrated outputs.  B(p) bounds how much the samples speak against
"it means the same in every domain": no alternative has a larger likelihood ratio than 1 / B
(Sellke, Bayarri and Berger, 2001).  What the test rejects is not ordered by how small its p is, and
what it does not doubt not by how large.  The weights before matching take part; weights whose
answers are no better than chance in some domain do not (`concept_test.informed`), for outputs that
say nothing mean the same everywhere.  So matching that gains nothing is undone.
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
from shiftproof.matching.unit_weight import unit_weight

# The chance of matching without concept shift, over all looks of a run: the usual level.
ALPHA = 0.05
# Enough to see what matching does soon after it did it, few enough for a look to be powerful.
LOOKS = 20
# With twice as many, p = ALPHA / LOOKS is reached with one permutation to spare.
PERMUTATIONS = round(2 * LOOKS / ALPHA) - 1
# Doubling reaches any strength in a few looks.
FACTOR = 2.0
# An order of magnitude less information than before is not what an invariant model would have.
LEFT = 0.1


class Verdict(Enum):
    """What a look makes of the present weights."""

    NOTHING = "go on"
    BEGIN = "matching begins here"
    BACK = "matching has run away: go back to where it began"


@dataclass
class AutoStrength:
    """The strength of one run.

    `kappa` is 0 before matching begins, and `factor` what it is multiplied by.  `units` are the
    weights that κ = 1 stands for, by term.  `information` is H − R before matching, and `score` is
    that of the best candidate so far.
    """

    kappa: float = 0.0
    units: dict[str, float] = field(default_factory=dict)
    factor: float = FACTOR
    information: float = 0.0
    score: float = 0.0

    @property
    def matches(self) -> bool:
        """Whether matching has begun."""
        return self.kappa > 0

    def weight(self, term: str) -> float:
        """Return λ of a term."""
        return self.units[term] * (self.kappa if term == "gradient" else 1.0)

    def begin(self, term: str, risk: float, penalty: float, gamma: float, order: int) -> None:
        """Fix the unit of a term, at its first matched step."""
        self.units[term] = unit_weight(risk, penalty, gamma, order)

    def look(self, held_out: HeldOut, *, seed: int = 0) -> Verdict:
        """Decide how strongly to match, by the outputs of the present weights."""
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
        """Whether weights that give this on what was held out are the best candidate so far."""
        found = calibrated(held_out)
        support = null_support(max(welch_p(found.t, held_out), ALPHA / LOOKS))
        score = support * (found.guess - found.risk)
        if score <= self.score or not informed(held_out, ALPHA / LOOKS):
            return False
        self.score = score
        return True

    def state(self) -> dict[str, Any]:
        """Return all that changes."""
        return asdict(self)

    def load(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        for name in asdict(self):
            setattr(self, name, state[name])


def null_support(p: float) -> float:
    """Return B(p): the null hypothesis' likelihood over the alternative's is nowhere below this.

    >>> round(null_support(0.05), 2), null_support(0.5)
    (0.41, 1.0)
    """
    return -math.e * p * math.log(p) if p < 1 / math.e else 1.0


def planned_looks(start: int, steps: int) -> tuple[int, ...]:
    """Return after which steps to look: `LOOKS` times from `start` on, and at the last step.

    >>> planned_looks(300, 1000)[:3], planned_looks(300, 1000)[-2:]
    ((300, 335, 370), (965, 1000))
    """
    if start >= steps:
        return ()
    looks = {max(1, start + j * (steps - start) // LOOKS) for j in range(LOOKS)}
    return (*sorted(looks - {steps}), steps)
