"""The strongest answer for the next domain: a weighted ensemble, judged by held-out domains."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from shiftproof.core.errors import InvalidValue
from shiftproof.core.space import hparam
from shiftproof.learners.algorithms.base import ALGORITHMS
from shiftproof.learners.boosting import BoostingCandidate
from shiftproof.learners.candidate import Candidate
from shiftproof.learners.ensemble import Ensemble
from shiftproof.learners.exact import Exact, Progress, silent
from shiftproof.learners.forest import ForestCandidate
from shiftproof.learners.judging import Judged, judge
from shiftproof.learners.linear import LinearCandidate
from shiftproof.learners.samples import Samples
from shiftproof.learners.stacking import stacking_weights

# A member that counts less is left out: it would cost its fit and change nothing.
LEAST_WEIGHT = 0.01


def portfolio(samples: Samples) -> list[Candidate]:
    """Return the candidates, cheapest first.

    They differ in kind, since an ensemble gains by members that err in different places: smooth
    and stepwise, few large steps and many small ones, grown greedily and at random.  The second
    linear model has scikit-learn's default penalty, 1/n: held-out domains are few, and the penalty
    that they prefer may be theirs alone.
    """
    return [
        LinearCandidate(),
        LinearCandidate("linear, default penalty", (1 / len(samples),)),
        BoostingCandidate("boosting, small trees", (100, 200), 0.05, 8),
        BoostingCandidate(),
        ForestCandidate("forest", (1,)),
        ForestCandidate("forest, large leaves", (5,)),
        ForestCandidate("extra trees", (5,), extra=True),
    ]


@ALGORITHMS.register("best")
class Best(Exact):
    """A portfolio of models, weighted by how they do on held-out training domains.

    Every candidate predicts each training domain without having been trained on it.  Those
    predictions choose its settings, calibrate it, and fit the weights of the ensemble
    (`learners.stacking`); then all members are fitted to all training domains.  The test domain is
    never looked at.
    """

    paper = "Wolpert (1992); van der Laan et al. (2007)"

    @dataclass(frozen=True)
    class Hparams(Exact.Hparams):
        """What may be spent."""

        budget: float = hparam(
            300.0, within=(0, 1e9), unit="seconds", help="begin no candidate after so many seconds"
        )

    hparams: Hparams

    def fitted(self, samples: Samples, seed: int, progress: Progress = silent) -> Ensemble:
        """Return the ensemble."""
        if self.hparams.budget <= 0:
            raise InvalidValue(f"`budget` must be above 0 seconds, not {self.hparams.budget:g}")
        started = time.perf_counter()
        judged: list[Judged] = []
        candidates = portfolio(samples)
        for place, candidate in enumerate(candidates):
            progress(f"judging {candidate.name}", place, len(candidates))
            # Refitting to all domains costs about a fold's share of judging.
            if judged and time.perf_counter() - started > self.hparams.budget:
                break
            judged.append(judge(candidate, samples, seed))
        chances = np.stack([one.chances for one in judged])
        weights = stacking_weights(chances, samples.domain, seed)
        weights = np.where(weights < LEAST_WEIGHT, 0, weights)
        weights = weights / weights.sum()
        members = []
        for place, (one, weight) in enumerate(zip(judged, weights, strict=True)):
            progress(f"fitting {one.candidate.name}", place, len(judged))
            members.append(one.fitted(samples, seed, float(weight)))
        return Ensemble(tuple(members), samples.classes)
