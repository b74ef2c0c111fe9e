"""`expect`: predict the score of a model at a new domain, with an interval."""

from __future__ import annotations

from shiftproof.api.held_out import held_out_in, held_out_in_folder
from shiftproof.api.load import Data
from shiftproof.api.settings import ExpectSettings, TrainEachSettings
from shiftproof.api.train_each import LeaveOneOut, train_each
from shiftproof.core.errors import InvalidValue
from shiftproof.core.settings import keywords
from shiftproof.inference.expected import Expected, check_asked


@keywords(ExpectSettings)
def expect(data: Data | LeaveOneOut, settings: ExpectSettings) -> Expected:
    """Hold out each domain in turn, and estimate what to expect at an unseen domain.

    The scores on the held-out domains go into a random-effects meta-analysis, whose prediction
    interval contains the score at the next domain with probability `level`.  Because domains
    differ, it is much wider than the standard error of the mean.

    Args:
        data: data as for `load`, the result of `train_each`, or the folder of its runs.  Finished
            runs take no settings of training.
    """
    finished = held_out_in(data) if isinstance(data, LeaveOneOut) else held_out_in_folder(data)
    asked = (settings.metric, settings.level, settings.at_least)
    training = settings.given(TrainEachSettings)
    if finished is None:
        check_asked(*asked)  # before training
        finished = held_out_in(train_each(data, **training))
    elif training.keys() - {"metric", "observer"}:
        raise InvalidValue("`data` has finished runs, which take no `algorithm` and no settings")
    return finished.asked(*asked)
