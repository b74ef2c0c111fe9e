"""`expect`: how well a model will do at the next domain, and how sure that is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftproof.api.load import Data
from shiftproof.api.train_each import LeaveOneOut, train_each
from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.core.standardize import ADAPTATION
from shiftproof.inference.estimates import LEVEL
from shiftproof.inference.expected import DEFAULT_METRIC, Expected, default_metric
from shiftproof.inference.model import TrainedModel
from shiftproof.inference.model_file import stored_header
from shiftproof.inference.temperature import calibrated_outputs
from shiftproof.training.load_run import read_run
from shiftproof.training.outputs import HELD_OUT, AnyOutputs, one_target

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
    outputs = {} if isinstance(data, LeaveOneOut) else runs_in(data)
    if not (isinstance(data, LeaveOneOut) or outputs):
        # A wrong setting must not cost a training.
        Expected({}, metric or DEFAULT_METRIC, level, at_least)
    if (isinstance(data, LeaveOneOut) or outputs) and (algorithm is not None or training):
        raise InvalidValue("`data` has finished runs, which take no `algorithm` and no settings")
    if outputs:
        folder = Path(str(data)).expanduser()
        shown = metric or default_metric(outputs.values())
        own = one_target(outputs, targets_in(data), target)
        return Expected(own, shown, level, at_least, classes_in(data), adaptation_in(folder))
    each = (
        data
        if isinstance(data, LeaveOneOut)
        else train_each(data, algorithm, metric=metric, **training)
    )
    if each.status != "finished":
        raise DataError(f"not all runs have finished: they {each.status}; call again to resume")
    own = one_target(each.outputs, each.targets, target)
    return Expected(own, metric or each.metric, level, at_least, each.classes, each.adaptation)


def runs_in(data: Data) -> dict[str, AnyOutputs]:
    """Return the answers of the runs in a folder on their held-out domains; {} if it has none."""
    found: dict[str, AnyOutputs] = {}
    if not isinstance(data, str | os.PathLike):
        return found
    folder = Path(data).expanduser()
    for path in _files(folder):
        for domain, own in calibrated_outputs(path.parent).items():
            if domain in found:
                raise DataError(
                    f"{folder} has two runs that held out domain {domain!r}; give the folder of one"
                    " algorithm's runs"
                )
            found[domain] = own
    return found


def classes_in(data: Data) -> tuple[str, ...]:
    """Return the names of the classes of the runs in a folder."""
    return _shared("classes", data)


def targets_in(data: Data) -> tuple[str, ...]:
    """Return the names of the numbers that the runs in a folder predict."""
    return _shared("targets", data)


def _shared(name: str, data: Data) -> tuple[str, ...]:
    """Return what the models of the runs in a folder all say."""
    paths = _files(Path(str(data)).expanduser())
    found = {tuple(stored_header(path.parent).get(name, ())): path.parent for path in paths}
    if len(found) > 1:
        first, second, *_ = found.values()
        raise DataError(f"{first} and {second} have different {name}; give the runs of one task")
    return next(iter(found))


def adaptation_in(folder: Path) -> str:
    """Return how the runs in a folder adapt to the held-out domain, in words."""
    found = {read_run(path.parent).standardize: path.parent for path in _files(folder)}
    if len(found) > 1:
        first, second, *_ = found.values()
        raise DataError(
            f"{first} and {second} differ in `standardize`; adaptation is not mixed with"
            " generalization"
        )
    return ADAPTATION[next(iter(found))]


def check_adaptation(folder: Path, model: TrainedModel) -> None:
    """Require that held-out runs adapt to a new domain in the same way as a model."""
    if (said := adaptation_in(folder)) != model.standardized:
        raise DataError(
            f"the runs in {folder} are {said or 'not standardized'}, and the model is"
            f" {model.standardized or 'not'}; give runs with the same `standardize`"
        )


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*/{HELD_OUT}"))


def finished_runs(folder: Path) -> Path:
    """Return a folder if it holds runs with held-out domains."""
    if not runs_in(folder):
        raise DataError(
            f"{folder} holds no runs with held-out domains; train them with every domain held out"
            " in turn"
        )
    return folder
