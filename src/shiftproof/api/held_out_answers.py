"""The outputs of models on held-out domains, from which to predict scores at a new domain."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shiftproof.api.train_each import LeaveOneOut
from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.core.standardize import ADAPTATION
from shiftproof.core.text import listed
from shiftproof.core.types import CLASSIFICATION
from shiftproof.inference.expected import Expected
from shiftproof.inference.model import TrainedModel
from shiftproof.inference.model_file import stored_header
from shiftproof.inference.temperature import calibrated_outputs
from shiftproof.metrics.base import DEFAULT, LEVEL
from shiftproof.metrics.outputs import AnyOutputs, task_of
from shiftproof.training.load_run import read_run
from shiftproof.training.outputs import HELD_OUT

# The result of `train_each`, or the folder of its runs.
Runs = LeaveOneOut | str | os.PathLike[str]


@dataclass(frozen=True)
class HeldOutAnswers:
    """The outputs by held-out domain, and what the models predict.

    `classes` or `targets` name what is predicted, and `adaptation` describes how the models adapt
    to a domain.  `metric` is the score to show first.
    """

    outputs: Mapping[str, AnyOutputs]
    classes: tuple[str, ...]
    targets: tuple[str, ...]
    adaptation: str
    metric: str

    def expected(
        self,
        metric: str | None = None,
        level: float = LEVEL,
        at_least: float | None = None,
    ) -> Expected:
        """Return what to expect at the next domain."""
        shown = metric or self.metric
        return Expected(self.outputs, shown, level, at_least, self.classes, self.adaptation)

    def require_task_of(self, model: TrainedModel) -> None:
        """Raise unless a model has the same classes or targets and adapts in the same way."""
        if self.targets != model.targets:
            raise DataError(
                f"the held-out runs predict {listed(self.targets) or 'classes'}, and the model"
                f" {listed(model.targets) or 'classes'}; give runs of the same task"
            )
        if self.classes != model.classes:
            raise DataError(
                f"the held-out runs have the classes {listed(self.classes)}, and the model"
                f" {listed(model.classes)}; give runs of the same task"
            )
        if self.adaptation != model.standardized:
            raise DataError(
                f"the held-out runs are {self.adaptation or 'not standardized'}, and the model is"
                f" {model.standardized or 'not'}; give runs with the same `standardize`"
            )


def held_out_answers(runs: Runs) -> HeldOutAnswers:
    """Return the outputs of finished runs; raise if there are none."""
    if isinstance(runs, LeaveOneOut):
        if runs.status != "finished":
            raise DataError(f"not all runs have finished: they {runs.status}; call again to resume")
        return HeldOutAnswers(
            runs.outputs, runs.classes, runs.targets, runs.adaptation, runs.metric
        )
    if not isinstance(runs, str | os.PathLike):
        raise InvalidValue(
            f"`expected` must be what `train_each` returned, or a folder, not {type(runs).__name__}"
        )
    found = answers_in(runs)
    if found is None:
        raise DataError(
            f"{runs} holds no runs with held-out domains; train them with every domain held out in"
            " turn"
        )
    return found


def answers_in(data: Any) -> HeldOutAnswers | None:
    """Return the outputs of the runs in a folder; None if there are none, or it is no folder."""
    if not isinstance(data, str | os.PathLike):
        return None
    folder = Path(data).expanduser()
    runs = [path.parent for path in sorted(folder.glob(f"*/{HELD_OUT}"))]
    outputs: dict[str, AnyOutputs] = {}
    for run in runs:
        for domain, own in calibrated_outputs(run).items():
            if domain in outputs:
                raise DataError(
                    f"{folder} has two runs that held out domain {domain!r}; give the folder of one"
                    " algorithm's runs"
                )
            outputs[domain] = own
    if not outputs:
        return None
    classes, targets = (_shared(name, runs) for name in ("classes", "targets"))
    shown = DEFAULT[task_of(outputs.values()) or CLASSIFICATION]
    return HeldOutAnswers(outputs, classes, targets, _adaptation(runs), shown)


def _shared(name: str, runs: list[Path]) -> tuple[str, ...]:
    """Return the entry `name` that the models of all runs share; raise if they differ."""
    found = {tuple(stored_header(run).get(name, ())): run for run in runs}
    if len(found) > 1:
        first, second, *_ = found.values()
        raise DataError(f"{first} and {second} have different {name}; give the runs of one task")
    return next(iter(found))


def _adaptation(runs: list[Path]) -> str:
    """Return a description of how the runs adapt to the held-out domain."""
    found = {read_run(run).standardize: run for run in runs}
    if len(found) > 1:
        first, second, *_ = found.values()
        raise DataError(
            f"{first} and {second} differ in `standardize`; give runs with the same value, because"
            " adaptation and generalization are reported separately"
        )
    return ADAPTATION[next(iter(found))]
