"""Selection by accuracy on the other domains, each held out in turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from shiftproof.sweeps.results import RunOutcome
from shiftproof.sweeps.selection.base import (
    SELECTORS,
    Needs,
    Selection,
    Selector,
    best_step,
    mean_if_all,
)


@SELECTORS.register("leave-one-domain-out")
class LeaveOneOut(Selector):
    """The step with the highest mean accuracy on other domains that were held out as well.

    For the test domain t and every other domain v, a run that holds out both is scored on v's in
    part; all these runs must exist.  The reported accuracy comes from the run that holds out only
    t.
    """

    name = "leave-one-domain-out"
    title = "leave-one-domain-out cross-validation"
    needs = Needs(("test-in",), evaluate_pairs=("test-in",))

    def choose_step(
        self, runs: Mapping[tuple[int, ...], RunOutcome], test_domain: int
    ) -> Selection | None:
        """Return the best step by the mean over the other domains' in parts."""
        if (run := runs.get((test_domain,))) is None:
            return None
        scores: list[dict[int, float | None]] = []
        for other in set(range(len(run.domains))) - {test_domain}:
            pair = runs.get((min(test_domain, other), max(test_domain, other)))
            if pair is None:
                return None
            scores.append({e.step: e.inside[other] for e in pair.evaluations})
        times = Counter(e.step for e in run.evaluations)
        means = [
            (e, mean_if_all(by_step.get(e.step) for by_step in scores))
            for e in run.evaluations
            if times[e.step] == 1  # if attempts are pooled, DomainBed ignores steps they share
        ]
        return best_step(run, test_domain, means)
