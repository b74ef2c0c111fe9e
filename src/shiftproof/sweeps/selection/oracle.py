"""Selection by the test domain itself."""

from __future__ import annotations

from shiftproof.sweeps.results import Evaluation
from shiftproof.sweeps.selection.base import SELECTORS, AtLastStep, Needs


@SELECTORS.register("oracle")
class Oracle(AtLastStep):
    """The last step, scored on the test domain's out part: no early stopping."""

    name = "oracle"
    title = "test-domain validation set (oracle)"
    needs = Needs(("test-in", "test-out"), every_step=False)

    def score(self, last: Evaluation, test_domain: int) -> float | None:
        """Return the accuracy on the test domain's out part."""
        return last.outside[test_domain]
