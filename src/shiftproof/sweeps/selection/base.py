"""The interface of selectors, which choose a draw of hyper-parameters and a step.

To add a selector, subclass `Selector`, declare what it ``needs`` and implement
`Selector.choose_step`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from operator import add
from typing import Any, ClassVar, NamedTuple

import numpy as np

from shiftproof.core.registry import Registry
from shiftproof.sweeps.results import Evaluation, Run

NOT_EVALUATED = "not evaluated"


@dataclass(frozen=True)
class Needs:
    """What a selector reads; nothing else is run or evaluated.

    ``evaluate`` names the evaluation sets of runs that hold out one domain, ``evaluate_pairs`` the
    sets of runs that hold out two (if empty, no such runs are needed).  ``every_step`` is False if
    the last evaluation is enough.
    """

    evaluate: tuple[str, ...]
    evaluate_pairs: tuple[str, ...] = ()
    every_step: bool = True

    def held_out(self, domains: int) -> list[tuple[int, ...]]:
        """Return the sets of test domains to run, as positions in ``range(domains)``."""
        sizes = (1, 2) if self.evaluate_pairs else (1,)
        return [chosen for size in sizes for chosen in combinations(range(domains), size)]


class Selection(NamedTuple):
    """A selected run and step, its score, and its accuracy on the test domain's in part."""

    run: Run
    step: int
    score: float
    accuracy: float


class Selector(ABC):
    """Selects among the runs of one dataset, algorithm, trial and test domain.

    ``title`` is the selector's name in DomainBed.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    needs: ClassVar[Needs]

    @abstractmethod
    def choose_step(
        self, runs: Mapping[tuple[int, ...], Run], test_domain: int
    ) -> Selection | None:
        """Return the best step of one draw of hyper-parameters, or None if it has no score.

        ``runs`` maps held-out domains to the finished runs of the draw.
        """

    def can_score(self, runs: Sequence[Run]) -> bool:
        """Return False only if none of the runs measured what the selector reads (quick check)."""
        return not self.needs.evaluate_pairs or any(len(run.test_domains) == 2 for run in runs)

    def why_unscored(self, run: Run) -> str:
        """Return a short reason why a finished run has no score."""
        return NOT_EVALUATED

    def choose_steps(self, runs: Iterable[Run], test_domain: int) -> dict[int, Selection]:
        """Return the best step of each draw that has a score, by ``hparams_seed``.

        Runs that have diverged, failed or not ended are ignored.
        """
        draws: defaultdict[int, dict[tuple[int, ...], Run]] = defaultdict(dict)
        for run in runs:
            if run.status == "finished" and test_domain in run.test_domains:
                draws[run.hparams_seed][run.key.test_domains] = run
        chosen = {seed: self.choose_step(draw, test_domain) for seed, draw in draws.items()}
        return {seed: selection for seed, selection in chosen.items() if selection}

    def select(self, runs: Iterable[Run], test_domain: int) -> Selection | None:
        """Return the best draw at its best step; ties go to the highest seed."""
        return best_draw(self.choose_steps(runs, test_domain))


class StepSelector(Selector):
    """A selector that scores the evaluations of the run that holds out only the test domain.

    Without ``needs.every_step``, it scores only the last evaluation (no early stopping).
    """

    @abstractmethod
    def score(self, evaluation: Evaluation, test_domain: int) -> float | None:
        """Return the score of an evaluation, or None if it lacks a required value."""

    def choose_step(
        self, runs: Mapping[tuple[int, ...], Run], test_domain: int
    ) -> Selection | None:
        """Return the step with the highest score."""
        if (run := runs.get((test_domain,))) is None:
            return None
        evaluations = run.evaluations if self.needs.every_step else run.evaluations[-1:]
        return best_step(run, test_domain, [(e, self.score(e, test_domain)) for e in evaluations])


def best_step(
    run: Run, test_domain: int, scored: Iterable[tuple[Evaluation, float | None]]
) -> Selection | None:
    """Return the step with an accuracy and the highest score; ties go to the earliest step.

    NaN scores are ignored, because no score compares higher than NaN.
    """
    selections = [
        Selection(run, evaluation.step, score, accuracy)
        for evaluation, score in scored
        if score is not None and not math.isnan(score)
        if (accuracy := evaluation.inside[test_domain]) is not None
    ]
    return max(selections, key=lambda chosen: (chosen.score, -chosen.step), default=None)


def best_draw(chosen: Mapping[int, Selection]) -> Selection | None:
    """Return the selection with the highest score; ties go to the highest ``hparams_seed``."""
    if not chosen:
        return None
    return chosen[max(chosen, key=lambda seed: (chosen[seed].score, seed))]


def mean_if_all(values: Iterable[float | None]) -> float | None:
    """Return the mean, or None if a value is missing or there are no values."""
    numbers: Sequence[Any] = values if isinstance(values, tuple) else list(values)
    if not numbers or None in numbers:
        return None
    # Sum as NumPy does, not more exactly: a tie in DomainBed must be a tie here.  NumPy adds fewer
    # than eight numbers sequentially, which is faster in plain Python.
    if len(numbers) >= 8:
        return float(np.mean(numbers))
    return reduce(add, numbers, 0.0) / len(numbers)


SELECTORS: Registry[type[Selector]] = Registry(
    "selection", package=__package__, plugins="shiftproof.selectors"
)
