"""Selection by accuracy on the test domain itself."""

from __future__ import annotations

from shiftproof.sweeps.results import Evaluation
from shiftproof.sweeps.selection.base import SELECTORS, Needs, StepSelector


@SELECTORS.register("oracle")
class Oracle(StepSelector):
    """The last step, scored on the test domain's out part: no early stopping."""

    name = "oracle"
    title = "test-domain validation set (oracle)"
    needs = Needs(("test-in", "test-out"), every_step=False)

    def score(self, evaluation: Evaluation, test_domain: int) -> float | None:
        """Return the accuracy on the test domain's out part."""
        return evaluation.outside[test_domain]
