"""Selection by training and test accuracy together, as in IRM's study of Colored MNIST."""

from __future__ import annotations

from shiftproof.sweeps.results import Evaluation
from shiftproof.sweeps.selection.base import SELECTORS, AtLastStep, Needs, mean_if_all


@SELECTORS.register("best-minimum")
class BestMinimum(AtLastStep):
    """The last step, scored by the lower of its training and its test accuracy.

    Both are of in parts, the first a mean over the training domains: max_w min(A_s(w), A_t(w)), by
    which Arjovsky et al. (2019) and Table 1 of the paper choose hyper-parameters.  Where the best
    on one side is the worst on the other (colour), it finds the best of both; but as it looks at
    the very accuracy that is reported, that number is the best of all draws, and no estimate of
    what a new domain would give.

    ``extra`` is evaluated to be reported beside the choice (the study's gray digits), not to make
    it.
    """

    name = "best-minimum"
    title = "best minimum of training and test accuracy (sees the test domain)"
    needs = Needs(("train-in", "test-in", "extra"), every_step=False)

    def score(self, last: Evaluation, test_domain: int) -> float | None:
        """Return the lower of both accuracies."""
        training = mean_if_all(last.inside[:test_domain] + last.inside[test_domain + 1 :])
        accuracy = last.inside[test_domain]
        return None if training is None or accuracy is None else min(training, accuracy)
