"""Ensemble weights for a score of the user's choice.

The weights of `learners.stacking` minimise the log loss, which is a proper score, convex in the
weights, and sensitive to every row.  Accuracy, AUROC and F1 are none of these: as functions of the
weights they are flat or rough, and their maximum over a few domains is mostly chance.  So no
weights are fitted to such a score.  Instead, it selects one of three sets of weights:

- stacked: the weights with the lowest log loss;
- equal: the same weight for all members;
- single: all weight on the member with the best score.

Regression does the same: stacked weights minimise the loss on the training domains, which may be
few, and one member may be far better than all others.

Each set is evaluated on domains that its weights were not fitted to (the discrete super learner,
van der Laan et al., 2007): the domains are split into a few folds, and the rows of a fold are
predicted with weights and a temperature from the other folds.  The set with the best mean over
domains is selected, the first in case of ties, and its weights are refitted on all domains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from shiftproof.core.errors import DataError
from shiftproof.learners.criterion import criterion_of
from shiftproof.learners.samples import Samples, held_out_folds
from shiftproof.learners.scores import SCORES, badness
from shiftproof.learners.stacking import Weights

# The score for calibration and stacking, and the default metric.
LOG_LOSS = "log_loss"
FOLDS = 5

Rule = Callable[[np.ndarray, Samples], Weights]


def mean_badness(metric: str, predicted: np.ndarray, samples: Samples) -> float:
    """Return the mean badness of predictions [n, classes] over domains; lower is better.

    Domains where the score is undefined are skipped.
    """
    found = domain_badness(metric, predicted, samples)
    if np.isnan(found).all():
        raise DataError(f"`metric` {metric} is undefined in every training domain; use another")
    return float(np.nanmean(found))


def domain_badness(metric: str, predicted: np.ndarray, samples: Samples) -> np.ndarray:
    """Return the badness of predictions [n, classes] in each domain; NaN where undefined."""
    found = []
    losses = None if samples.classes else criterion_of(samples).losses(predicted, samples)
    for rows in samples.rows_by_domain():
        if losses is not None:  # regression is scored by the criterion's loss only
            found.append(float(np.average(losses[rows], weights=samples.weights()[rows])))
            continue
        value = SCORES[metric](predicted[rows], samples.y[rows])
        found.append(np.nan if value is None else badness(metric, value))
    return np.array(found)


def metric_weights(predicted: np.ndarray, samples: Samples, seed: int, metric: str) -> Weights:
    """Return the weights of members, given their held-out predictions [members, n, classes].

    For the log loss these are the stacked weights; for any other score, and for regression, the
    best of the three sets.
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
    """Return the rule whose weights do best on domains that they were not fitted to."""
    found = [
        mean_badness(metric, cross_fitted(rule, predicted, samples, seed), samples)
        for rule in rules
    ]
    return rules[int(np.argmin(found))]


def cross_fitted(rule: Rule, predicted: np.ndarray, samples: Samples, seed: int) -> np.ndarray:
    """Return the ensemble's predictions [n, classes], with weights from other domains.

    The temperature is from other domains too.  ``predicted`` [members, n, classes] are the members'
    held-out predictions.
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
