"""Selection by the test domain itself."""

from __future__ import annotations

from collections.abc import Mapping

from shiftproof.benchmark.results import RunOutcome
from shiftproof.benchmark.selection.base import SELECTORS, Needs, Selection, Selector


@SELECTORS.register("oracle")
class Oracle(Selector):
    """The last step, scored on the test domain's out part: no early stopping."""

    name = "oracle"
    title = "test-domain validation set (oracle)"
    needs = Needs(("test-in", "test-out"), every_step=False)

    def choose_step(
        self, runs: Mapping[tuple[int, ...], RunOutcome], test_domain: int
    ) -> Selection | None:
        """Return the last step with its score on the test domain's out part."""
        run = runs.get((test_domain,))
        if run is None or not run.evaluations:
            return None
        last = run.evaluations[-1]
        score, accuracy = last.outside[test_domain], last.inside[test_domain]
        if score is None or accuracy is None:
            return None
        return Selection(run, last.step, score, accuracy)
