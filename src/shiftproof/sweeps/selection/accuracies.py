"""Selection by accuracy: on the training domains, the test domain, both, or other domains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from shiftproof.sweeps.results import Evaluation, Run
from shiftproof.sweeps.selection.base import (
    SELECTORS,
    Needs,
    Selection,
    Selector,
    StepSelector,
    best_step,
    mean_if_all,
)


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


@SELECTORS.register("oracle")
class Oracle(StepSelector):
    """The last step, scored on the test domain's out part: no early stopping."""

    name = "oracle"
    title = "test-domain validation set (oracle)"
    needs = Needs(("test-in", "test-out"), every_step=False)

    def score(self, evaluation: Evaluation, test_domain: int) -> float | None:
        """Return the accuracy on the test domain's out part."""
        return evaluation.outside[test_domain]


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
        self, runs: Mapping[tuple[int, ...], Run], test_domain: int
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
