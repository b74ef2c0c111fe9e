"""The strongest predictor for a new domain: a weighted ensemble, scored on held-out domains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from shiftproof.core.space import hparam
from shiftproof.core.types import CLASSIFICATION
from shiftproof.data.base import Progress, silent
from shiftproof.learners.base import ALGORITHMS
from shiftproof.learners.boosting import BoostingCandidate
from shiftproof.learners.candidate import LOG_LOSS, MOST_FOLDS, Candidate, Judged, judge, size_of
from shiftproof.learners.criterion import criterion_of
from shiftproof.learners.ensemble import Ensemble
from shiftproof.learners.exact import Exact
from shiftproof.learners.forest import ForestCandidate
from shiftproof.learners.linear import LinearCandidate
from shiftproof.learners.samples import Samples
from shiftproof.metrics import METRICS
from shiftproof.statistics.stacking import mixture_weights

# Trees per forest: more would hardly change the ensemble, and take time to fit and store.
TREES = 100
# How many training domains the equal weights count as: one for each family of the portfolio.
PRIOR = 3
# Why a candidate was not tried.
TOO_MUCH_WORK = "because the estimated time exceeds the budget"


def portfolio(samples: Samples) -> list[Candidate]:
    """Return the candidates.

    They are of different kinds, because an ensemble gains from members with different errors:
    smooth and piecewise constant, a few large trees and many small ones, greedy and random splits.
    The second linear model uses scikit-learn's default penalty, 1/n, because a penalty selected on
    few held-out domains may fit only those domains.
    """
    rows = len(samples)
    return [
        LinearCandidate(),
        LinearCandidate("linear, default penalty", (1 / rows,)),
        LinearCandidate("linear on ranks", ranks=True),
        BoostingCandidate("boosting, small trees", (100, 200), 0.05, 8),
        BoostingCandidate(),
        ForestCandidate("forest", (1,), TREES),
        ForestCandidate("forest, large leaves", (5,), TREES),
        ForestCandidate("extra trees", (5,), TREES, extra=True),
    ]


def planned(
    candidates: list[Candidate], samples: Samples, budget: float
) -> tuple[list[Candidate], list[Candidate]]:
    """Return the candidates to try, cheapest first, and the others.

    Those to try have a total of estimated seconds within the budget.  The estimates depend on the
    numbers of rows, columns and outputs only, never on a clock.  The cheapest is always tried.
    """
    size = size_of(samples)
    folds = min(max(len(np.unique(samples.domain)), 2), MOST_FOLDS)
    costs = [candidate.seconds_to_judge(size, folds) for candidate in candidates]
    order = np.argsort(costs, kind="stable")
    fits = np.cumsum(np.array(costs)[order]) <= budget
    fits[0] = True
    ordered = [candidates[position] for position in order]
    count = int(fits.sum())
    return ordered[:count], ordered[count:]


@ALGORITHMS.register("best")
class Best(Exact):
    """A portfolio of models, weighted by how they do on held-out training domains.

    Every candidate predicts each training domain without having been trained on it.  These
    predictions select its settings, calibrate it, and fit the weights of the ensemble
    (`shrunk_weights`).  Then all members are fitted to all training domains.  The test domain is
    never used.  `results/best.md` compares this with simpler weights.
    """

    paper = "Wolpert (1992); Breiman (1996)"

    @dataclass(frozen=True)
    class Hparams(Exact.Hparams):
        """The budget and the metric."""

        budget: float = hparam(
            200.0,
            within=(1e-9, 1e9),
            unit="seconds",
            help="estimated time of all candidates on one core; others are left out",
        )
        metric: str = hparam(
            LOG_LOSS,
            choices=partial(METRICS.of, CLASSIFICATION),
            help="score on held-out domains that chooses the settings of each member",
        )

    hparams: Hparams

    def fitted(self, samples: Samples, seed: int, progress: Progress = silent) -> Ensemble:
        """Return the ensemble."""
        chosen, too_long = planned(portfolio(samples), samples, self.hparams.budget)
        judged: list[Judged] = []
        for position, candidate in enumerate(chosen):
            progress("judging candidates", position, len(chosen))
            judged.append(judge(candidate, samples, seed, self.hparams.metric))
        progress("judging candidates", len(chosen), len(chosen))
        ensemble = combined(judged, samples, seed, progress)
        left_out = {candidate.name: TOO_MUCH_WORK for candidate in too_long}
        return replace(ensemble, left_out=left_out)


def equal_weights(families: Sequence[str]) -> np.ndarray:
    """Return weights that are equal for each family, and within a family for its members.

    >>> equal_weights(["linear", "forest", "forest"]).tolist()
    [0.5, 0.25, 0.25]
    """
    return np.array([1 / (len(set(families)) * families.count(family)) for family in families])


def shrunk_weights(predicted: np.ndarray, samples: Samples, families: Sequence[str]) -> np.ndarray:
    """Return the weights [m] of members with held-out predictions [m, n, k].

    They are stacked weights, the minimiser ŵ of the held-out loss over the simplex (Breiman, 1996),
    shrunk towards equal weights e: (d ŵ + `PRIOR` e) / (d + `PRIOR`) for d training domains.  The
    domains are the sampling units, so ŵ is mostly chance if they are few.
    """
    equal = equal_weights(families)
    stacked = mixture_weights(criterion_of(samples).mixture_loss(predicted, samples), equal)
    domains = len(np.unique(samples.domain))
    weights: np.ndarray = domains * stacked + PRIOR * equal
    return weights / (domains + PRIOR)


def combined(
    judged: list[Judged], samples: Samples, seed: int, progress: Progress = silent
) -> Ensemble:
    """Fit the candidates to all samples, and weight and calibrate them on held-out domains."""
    predicted = np.stack([result.predicted for result in judged])
    weights = shrunk_weights(predicted, samples, [result.candidate.family for result in judged])
    mixture = np.tensordot(weights, predicted, 1)
    criterion = criterion_of(samples)
    temperature = criterion.temperature(mixture, samples)
    members = []
    for position, (result, weight) in enumerate(zip(judged, weights, strict=True)):
        progress("fitting members", position, len(judged))
        members.append(result.fitted(samples, seed, float(weight)))
    progress("fitting members", len(judged), len(judged))
    held_out = criterion.calibrated(mixture, temperature)
    return Ensemble(tuple(members), samples.classes, temperature, held_out=held_out)
