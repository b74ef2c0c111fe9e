"""Selection by accuracy on the training domains alone."""

from __future__ import annotations

from shiftproof.sweeps.results import Evaluation
from shiftproof.sweeps.selection.base import SELECTORS, Needs, StepSelector, mean_if_all


@SELECTORS.register("training-domain")
class TrainingDomain(StepSelector):
    """The step with the highest mean accuracy on the out parts of the training domains."""

    name = "training-domain"
    title = "training-domain validation set"
    needs = Needs(("train-out", "test-in"))

    def score(self, evaluation: Evaluation, test_domain: int) -> float | None:
        """Return the mean accuracy on the training domains' out parts."""
        outside = evaluation.outside
        return mean_if_all(outside[:test_domain] + outside[test_domain + 1 :])
