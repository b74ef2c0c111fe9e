"""`expect`: how well a model will do at the next domain, and how sure that is."""

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
    target: str | None = None,
    **training: Any,
) -> Expected:
    """Hold out each domain in turn, and say what to expect of a domain never seen.

    The scores on the held-out domains go into a random-effects meta-analysis, whose prediction
    interval holds the score of the next domain with probability `level`.  It is much wider than
    the mean's standard error: domains differ.

    Args:
        data: what `load` takes; or what `train_each` returned; or the folder that its runs are in.
        algorithm: as in `train`.
        metric: the score to show: accuracy (the default), balanced_accuracy, auroc,
            average_precision, f1, log_loss, brier, calibration_slope, calibration_intercept or
            calibration_error; of numbers mae (the default), r2, rmse, calibration_slope,
            calibration_intercept or interval_coverage.  If models are trained here, `best`
            optimises it (see `train`).
        at_least: a threshold of `metric`; `probability_worse` then says how probable it is that
            the next domain is worse.
        level: probability of the intervals.
        target: of runs that predict several numbers, the one to expect.
        training: the other keywords are those of `train_each`.
    """
    finished = held_out_answers(data) if isinstance(data, LeaveOneOut) else answers_in(data)
    if finished is None:
        # A wrong setting must not cost a training.
        Expected({}, metric or DEFAULT_METRIC, level, at_least)
        finished = held_out_answers(train_each(data, algorithm, metric=metric, **training))
    elif algorithm is not None or training:
        raise InvalidValue("`data` has finished runs, which take no `algorithm` and no settings")
    return finished.expected(metric, level, at_least, target)
