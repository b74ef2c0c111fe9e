"""Predictions on held-out domains, from runs or their folder."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from shiftproof.api.train_each import LeaveOneOut
from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.core.standardize import ADAPTATION
from shiftproof.inference.expected import Expected
from shiftproof.inference.model_file import stored_header
from shiftproof.inference.temperature import calibrated_outputs
from shiftproof.metrics.outputs import AnyOutputs
from shiftproof.training.load_run import read_run
from shiftproof.training.outputs import HELD_OUT

# The result of `train_each`, or the folder of its runs.
T = TypeVar("T", bound=Hashable)
Runs = LeaveOneOut | str | os.PathLike[str]


def held_out_in(runs: Runs) -> Expected:
    """Return the predictions of finished runs on held-out domains; raise if there are none."""
    if isinstance(runs, LeaveOneOut):
        if runs.status != "finished":
            raise DataError(f"not all runs have finished: they {runs.status}; call again to resume")
        return runs.expected
    if not isinstance(runs, str | os.PathLike):
        raise InvalidValue(
            f"`expected` must be what `train_each` returned, or a folder, not {type(runs).__name__}"
        )
    expected = held_out_in_folder(runs)
    if expected is None:
        raise DataError(
            f"{runs} holds no runs with held-out domains; train them with every domain held out in"
            " turn"
        )
    return expected


def held_out_in_folder(data: Any) -> Expected | None:
    """Return the predictions of the runs in a folder; None without runs, or if it is no folder."""
    if not isinstance(data, str | os.PathLike):
        return None
    folder = Path(data).expanduser()
    runs = [path.parent for path in sorted(folder.glob(f"*/{HELD_OUT}"))]
    outputs: dict[str, AnyOutputs] = {}
    for run in runs:
        for domain, predicted in calibrated_outputs(run).items():
            if domain in outputs:
                raise DataError(
                    f"{folder} has two runs that held out domain {domain!r}; give the folder of one"
                    " algorithm's runs"
                )
            outputs[domain] = predicted
    if not outputs:
        return None
    headers = {run: stored_header(run) for run in runs}
    classes, targets = (
        _shared({run: tuple(header.get(name, ())) for run, header in headers.items()}, name)
        for name in ("classes", "targets")
    )
    adaptation = ADAPTATION[
        _shared({run: read_run(run).standardize for run in runs}, "`standardize`")
    ]
    return Expected(outputs, classes=classes, targets=targets, adaptation=adaptation)


def _shared(values: Mapping[Path, T], name: str) -> T:
    """Return the value that all runs share; raise if they differ."""
    by_value = {value: run for run, value in values.items()}
    if len(by_value) > 1:
        first, second, *_ = by_value.values()
        raise DataError(
            f"{first} and {second} have different {name}; give runs of one task and, because"
            " adaptation and generalization are reported separately, with the same `standardize`"
        )
    return next(iter(by_value))
