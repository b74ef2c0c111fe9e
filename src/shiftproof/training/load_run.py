"""Load a run from its folder: its configuration and its checkpoint.

`training.checkpoint` loads the weights of a network.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from shiftproof.core.errors import CheckpointError, DataError
from shiftproof.core.files import read_json
from shiftproof.core.text import reason_of
from shiftproof.data import DomainDataset
from shiftproof.data.tables.preprocessing import FittedColumns
from shiftproof.models.weights_name import RANDOM
from shiftproof.training.array_state import State, load_arrays
from shiftproof.training.config import RunConfig
from shiftproof.training.configure import choose_device
from shiftproof.training.run_folder import START_OVER, RunFolder


def read_run(folder: Path) -> RunConfig:
    """Return the configuration of the run in a folder."""
    path = folder / "config.json"
    if not path.is_file():
        raise DataError(f"{folder} holds no run: it has no {path.name}")
    try:
        return RunConfig.from_json(read_json(path, remedy=START_OVER))
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged; train again ({error})") from error


def read_arrays(folder: Path) -> State:
    """Return the state of the run in a folder, as arrays."""
    return existing_state(load_arrays(RunFolder(folder).checkpoint), folder)


def existing_state(state: State | None, folder: Path) -> State:
    """Return the state of a run, or raise if it has none yet."""
    if state is None:
        raise DataError(f"the run in {folder} has no checkpoint yet; train it first")
    return state


def fitted_preparation(
    run: RunConfig, dataset: DomainDataset, state: State | None
) -> FittedColumns | None:
    """Return the preparation of a run's inputs, fitted to its training samples.

    It is fitted once, when the run starts, and stored in its checkpoint.
    """
    if dataset.preparation is None:
        return None
    if state is None:
        splits = run.training_splits(dataset)
        return dataset.fit_preparation({name: split.in_ for name, split in splits.items()})
    try:
        return FittedColumns.from_json(state["preparation"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"the checkpoint of the run is damaged ({error!r})") from error


def without_starting_weights(run: RunConfig, device: str = "auto") -> RunConfig:
    """Return a run whose network starts from random weights, to be replaced by trained ones."""
    started = {**run.hparams, **({"weights": RANDOM} if "weights" in run.hparams else {})}
    return replace(run, hparams=started, device=choose_device(device), weights_file="")


def unfit_checkpoint(folder: Path, error: Exception) -> CheckpointError:
    """Return the error for a checkpoint that cannot be loaded, in one line."""
    reason = reason_of(error)
    return CheckpointError(
        f"the checkpoint in {folder} does not fit this version ({reason}); {START_OVER}"
    )
