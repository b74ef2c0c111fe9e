"""Selection by invariance: the outputs mean the same in every training domain."""

from __future__ import annotations

import math
from collections.abc import Sequence

from shiftproof.sweeps.results import Evaluation, Run
from shiftproof.sweeps.selection.base import SELECTORS, Needs, StepSelector
from shiftproof.theory import target_gap

# Concept shift is considered absent if its p-value is at least this.  Accepting a model that shifts
# is the costly mistake; if a good one is rejected, another step can be selected.
LEVEL = 0.2
# The share of the label's entropy that a model must explain in every domain; less is negligible, as
# in a diagnosis.
LEAST_GAIN = 0.01


@SELECTORS.register("invariance")
class Invariance(StepSelector):
    """The lowest worst-domain risk among steps without a detectable concept shift.

    It reads only the out parts of the training domains.  A step is accepted under two conditions.
    First, the test does not reject "no concept shift", I(Y;D|R) = 0 for the outputs R; even a small
    shift between training domains can be large in a new one.  Second, the model explains at least
    `LEAST_GAIN` of the entropy of the labels in each domain, because a model that has learnt almost
    nothing is invariant too.  The accepted step with the highest −(worst risk) is selected.

    A step that is not accepted scores −(M + worst risk + M √(I(R,Y;D)/2)).  The last term bounds
    the mean gap to a new domain's risk (Theorem III.5), with I(R,Y;D) = I(R;D) + I(Y;D|R) as
    measured, for losses up to M: the cross-entropy clipped at log(classes), that of a uniform
    guess.  Accepted risks lie below the entropy of the labels, hence below M, so the first M ranks
    every accepted step above every other.
    """

    name = "invariance"
    title = "invariance of the outputs between training domains"
    needs = Needs(("train-out", "test-in", "invariance"))

    def score(self, evaluation: Evaluation, test_domain: int) -> float | None:
        """Return −(worst risk), minus M and a bound on the gap if the step is not accepted."""
        shift, risk = evaluation.shift, evaluation.risk
        if shift is None or risk is None:
            return None
        worst, learnt = 0.0, True
        for position, (own_risk, entropy) in enumerate(zip(risk, shift.label_entropy, strict=True)):
            if position == test_domain:
                continue
            if own_risk is None or entropy is None:
                return None
            worst, learnt = max(worst, own_risk), learnt and own_risk <= (1 - LEAST_GAIN) * entropy
        if learnt and shift.concept_p >= LEVEL:
            return -worst
        most = math.log(shift.classes)
        # A bounded loss is sub-Gaussian with half its range.
        gap = target_gap(shift.covariate + shift.concept, most / 2).scale
        return -(most + worst + gap)

    def can_score(self, runs: Sequence[Run]) -> bool:
        """Return whether any run has measured the shift of its outputs."""
        return any(e.shift is not None for run in runs for e in run.evaluations)

    def why_unscored(self, run: Run) -> str:
        """Return why the outputs could not be tested, if that is known."""
        whys = dict.fromkeys(e.untested for e in run.evaluations if e.untested)
        return f"no test of invariance ({'; '.join(whys)})" if whys else super().why_unscored(run)
