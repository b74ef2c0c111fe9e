"""Selection by training and test accuracy together, as in IRM's study of Colored MNIST."""

from __future__ import annotations

from shiftproof.sweeps.results import Evaluation
from shiftproof.sweeps.selection.base import SELECTORS, Needs, StepSelector, mean_if_all


@SELECTORS.register("best-minimum")
class BestMinimum(StepSelector):
    """The last step, scored by the lower of its training and its test accuracy.

    Both are measured on in parts; the training accuracy is the mean over the training domains.
    Arjovsky et al. (2019) and Table 1 of the paper select hyper-parameters by this criterion,
    max_w min(A_s(w), A_t(w)).  Where the best model for one is the worst for the other (colour), it
    finds a compromise.  It selects by the reported accuracy itself, so that number is the best of
    all draws, not an estimate of the accuracy on a new domain.

    ``extra`` (the study's gray digits) is only reported, not used to select.
    """

    name = "best-minimum"
    title = "best minimum of training and test accuracy (sees the test domain)"
    needs = Needs(("train-in", "test-in", "extra"), every_step=False)

    def score(self, evaluation: Evaluation, test_domain: int) -> float | None:
        """Return the lower of the two accuracies."""
        inside = evaluation.inside
        training = mean_if_all(inside[:test_domain] + inside[test_domain + 1 :])
        accuracy = inside[test_domain]
        return None if training is None or accuracy is None else min(training, accuracy)
