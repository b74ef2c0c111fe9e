"""Selection by the training domains alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shiftproof.sweeps.results import RunOutcome
from shiftproof.sweeps.selection.base import (
    SELECTORS,
    Needs,
    Selection,
    Selector,
    earliest_best,
    mean_if_all,
)


@SELECTORS.register("training-domain")
class TrainingDomain(Selector):
    """The step with the highest mean accuracy on the out parts of the training domains."""

    name = "training-domain"
    title = "training-domain validation set"
    needs = Needs(("train-out", "test-in"))

    def choose_step(
        self, runs: Mapping[tuple[int, ...], RunOutcome], test_domain: int
    ) -> Selection | None:
        """Return the best step by the training domains' out parts."""
        run = runs.get((test_domain,))
        return earliest_best(_steps(run, test_domain)) if run else None


def _steps(run: RunOutcome, test_domain: int) -> Iterator[Selection]:
    for evaluation in run.evaluations:
        outside = evaluation.outside
        score = mean_if_all(outside[:test_domain] + outside[test_domain + 1 :])
        accuracy = evaluation.inside[test_domain]
        if score is not None and accuracy is not None:
            yield Selection(run, evaluation.step, score, accuracy)
