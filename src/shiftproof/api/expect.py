"""`expect`: predict the score of a model at a new domain, with an interval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shiftproof.api.held_out_answers import answers_in, held_out_answers
from shiftproof.api.load import Data
from shiftproof.api.train_each import LeaveOneOut, train_each
from shiftproof.core.errors import InvalidValue
from shiftproof.inference.estimates import LEVEL
from shiftproof.inference.expected import DEFAULT_METRIC, Expected

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator  # type: ignore[import-untyped]


def expect(
    data: Data | LeaveOneOut,
    algorithm: str | BaseEstimator | None = None,
    *,
    metric: str | None = None,
    at_least: float | None = None,
    level: float = LEVEL,
    **training: Any,
) -> Expected:
    """Hold out each domain in turn, and estimate what to expect at an unseen domain.

    The scores on the held-out domains go into a random-effects meta-analysis, whose prediction
    interval contains the score at the next domain with probability `level`.  Because domains
    differ, it is much wider than the standard error of the mean.

    Args:
        data: data as for `load`, the result of `train_each`, or the folder of its runs.
        algorithm: as in `train`.
        metric: the score to show: accuracy (the default), balanced_accuracy, auroc,
            average_precision, f1, log_loss, brier, calibration_slope, calibration_intercept or
            calibration_error; in regression mae (the default), r2, rmse and, for finished runs,
            calibration_slope, calibration_intercept or interval_coverage.  If models are trained
            here, `best` chooses settings by it (see `train`).
        at_least: a threshold for `metric`; `probability_worse` is then the probability that the
            next domain is worse.
        level: probability of the intervals.
        training: other keywords, as in `train_each`.
    """
    finished = held_out_answers(data) if isinstance(data, LeaveOneOut) else answers_in(data)
    if finished is None:
        # Check the settings before training.
        Expected({}, metric or DEFAULT_METRIC, level, at_least)
        finished = held_out_answers(train_each(data, algorithm, metric=metric, **training))
    elif algorithm is not None or training:
        raise InvalidValue("`data` has finished runs, which take no `algorithm` and no settings")
    return finished.expected(metric, level, at_least)
