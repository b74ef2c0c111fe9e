"""Weights of an ensemble that should do well by a score of the user's choice.

The weights of `learners.stacking` minimise the log loss.  It is a proper score, convex in the
weights, and every row counts in it.  Accuracy, AUROC or F1 are none of these: as functions of the
weights they are flat or rough, and their maximum over a few domains is mostly chance.  So no
weights are fitted to such a score.  It decides between three sets of weights instead:

- stacked: those of least log loss;
- equal: the same for all members;
- single: all for the member that does best by the score.

So it is with numbers: the stacked weights are of least loss on the domains there are, which may be
few, and one member may be far better than all others.

Each is judged on domains that its weights were not found on (the discrete super learner, van der
Laan et al., 2007): the domains are dealt to a few folds, and the rows of a fold are predicted with
weights, and a temperature, from all others.  The best mean over domains wins, and of equal ones the
first.  Its weights are then found on all domains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from shiftproof.core.errors import DataError
from shiftproof.learners.criterion import criterion_of
from shiftproof.learners.samples import Samples, held_out_folds
from shiftproof.learners.scores import SCORES, badness
from shiftproof.learners.stacking import Weights

# What members are calibrated and stacked by, and what counts if no score is asked for.
LOG_LOSS = "log_loss"
FOLDS = 5

Rule = Callable[[np.ndarray, Samples], Weights]


def mean_badness(metric: str, predicted: np.ndarray, samples: Samples) -> float:
    """Return how bad predictions [n, classes] are by a score: a mean over domains, less is better.

    Domains where the score is undefined are left out.
    """
    found = domain_badness(metric, predicted, samples)
    if np.isnan(found).all():
        raise DataError(f"`metric` {metric} is undefined in every training domain; use another")
    return float(np.nanmean(found))


def domain_badness(metric: str, predicted: np.ndarray, samples: Samples) -> np.ndarray:
    """Return how bad predictions [n, classes] are in each domain; NaN where that is undefined."""
    found = []
    losses = None if samples.classes else criterion_of(samples).losses(predicted, samples)
    for rows in samples.rows_by_domain():
        if losses is not None:  # of numbers, the loss of the criterion is the only score
            found.append(float(np.average(losses[rows], weights=samples.weights()[rows])))
            continue
        value = SCORES[metric](predicted[rows], samples.y[rows])
        found.append(np.nan if value is None else badness(metric, value))
    return np.array(found)


def metric_weights(predicted: np.ndarray, samples: Samples, seed: int, metric: str) -> Weights:
    """Return the weights of members by their predictions [members, n, classes] of held-out domains.

    For the log loss these are the stacked ones; for any other score, and of numbers, the best of
    three.
    """

    def stacked(predicted: np.ndarray, samples: Samples) -> Weights:
        return criterion_of(samples).weights(predicted, samples, seed)

    def equal(predicted: np.ndarray, samples: Samples) -> Weights:
        return _certain(np.full(len(predicted), 1 / len(predicted)))

    def single(predicted: np.ndarray, samples: Samples) -> Weights:
        found = [mean_badness(metric, own, samples) for own in predicted]
        return _certain(np.eye(len(predicted))[int(np.argmin(found))])

    if (metric == LOG_LOSS and samples.classes) or len(predicted) == 1:
        return stacked(predicted, samples)
    return best_rule((stacked, equal, single), predicted, samples, seed, metric)(predicted, samples)


def best_rule(
    rules: Sequence[Rule], predicted: np.ndarray, samples: Samples, seed: int, metric: str
) -> Rule:
    """Return the rule whose weights do best on domains that they were not found on."""
    found = [
        mean_badness(metric, cross_fitted(rule, predicted, samples, seed), samples)
        for rule in rules
    ]
    return rules[int(np.argmin(found))]


def cross_fitted(rule: Rule, predicted: np.ndarray, samples: Samples, seed: int) -> np.ndarray:
    """Return the ensemble's predictions [n, classes], its weights from domains other than a row's.

    So is its temperature.  ``predicted`` [members, n, classes] are those of its members.
    """
    folds = held_out_folds(samples, FOLDS, seed)
    criterion = criterion_of(samples)
    mixture = np.empty(predicted.shape[1:])
    for fold in np.unique(folds):
        rows, kept = folds == fold, samples.only(folds != fold)
        weights = rule(predicted[:, ~rows], kept).mean
        temperature = criterion.temperature(np.tensordot(weights, predicted[:, ~rows], 1), kept)
        mixture[rows] = criterion.calibrated(
            np.tensordot(weights, predicted[:, rows], 1), temperature
        )
    return mixture


def _certain(weights: np.ndarray) -> Weights:
    return Weights(weights, np.zeros_like(weights))
