"""A run is a folder: config.json, records.jsonl, checkpoint.safetensors and, last, done.json.

The functions load what a run was configured with, and the state in its checkpoint.
`training.checkpoint` loads the weights of a network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from shiftproof.core.errors import CheckpointError, DataError, RunConflict
from shiftproof.core.files import (
    is_temporary,
    locked_folder,
    read_json,
    read_json_if_any,
    write_json,
)
from shiftproof.core.text import reason_of
from shiftproof.data import DomainDataset
from shiftproof.data.base import FittedPreparation
from shiftproof.models.weights_name import RANDOM
from shiftproof.training.array_state import State, load_arrays
from shiftproof.training.config import RunConfig
from shiftproof.training.configure import choose_device
from shiftproof.training.records import Records

START_OVER = "delete the run to start over"


class RunFolder:
    """Read and write the files of one run.

    `checkpoint` is written and read by the session (`training.session`), which knows its form.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records = Records(path / "records.jsonl")
        self._done = path / "done.json"

    @property
    def checkpoint(self) -> Path:
        """The file with all the state that the next step depends on."""
        return self.path / "checkpoint.safetensors"

    @contextmanager
    def claim(self, config: RunConfig) -> Iterator[None]:
        """Lock the folder for `config`: no other run and no other process may write to it."""
        with locked_folder(self.path, f"another process is writing {self.path}; wait or stop it"):
            self._claim_config(config)
            yield

    def done(self) -> dict[str, Any] | None:
        """Return how the run ended, or None if it has not."""
        required = ("status", "step", "seconds")
        return read_json_if_any(self._done, required, "delete it to resume the run")

    def finish(self, ended: dict[str, Any]) -> None:
        """Write done.json, the last file of a run."""
        write_json(self._done, ended)

    def _claim_config(self, config: RunConfig) -> None:
        path = self.path / "config.json"
        wanted = config.to_json()
        # A sweep writes the last two.
        ours = {"lock", path.name, "job.json", "failed.json"}
        for left in filter(is_temporary, self.path.iterdir()):
            left.unlink()  # left by a killed process, since we hold the lock
        # Version 0.1 left files that end in .new.
        others = [f.name for f in self.path.iterdir() if f.name not in ours and f.suffix != ".new"]
        if not others:  # a new run, or one that failed before its first step
            write_json(path, wanted)
            return
        if not path.exists():
            raise RunConflict(
                f"{self.path} has {min(others)} but no config.json, so it holds no run to resume;"
                " choose another `out`"
            )
        found = read_json(path, remedy=START_OVER)
        if found != wanted:
            raise RunConflict(
                f"{self.path} holds another run ({changes(found, wanted)});"
                " choose another `out` or delete it"
            )


def changes(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """List the first few settings and hyper-parameters that differ."""
    old, new = _flat(found), _flat(wanted)
    keys = sorted(old.keys() | new.keys())
    named = [
        "other data or columns" if k == "fingerprint" else f"{k} {old.get(k)!r} → {new.get(k)!r}"
        for k in keys
        if old.get(k) != new.get(k)
    ]
    return "; ".join(named[:3]) + ("; …" if len(named) > 3 else "")


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings, hyper-parameters and settings of frozen features in one dict."""
    frozen = {f"frozen {name}": value for name, value in config.get("frozen", {}).items()}
    flat = {**config, **config.get("hparams", {}), **frozen}
    return {name: value for name, value in flat.items() if name not in ("hparams", "frozen")}


def read_run(folder: Path) -> RunConfig:
    """Return the configuration of the run in a folder."""
    path = folder / "config.json"
    if not path.is_file():
        raise DataError(f"{folder} holds no run: it has no {path.name}")
    try:
        return RunConfig.from_json(read_json(path, remedy=START_OVER))
    except TypeError as error:
        raise CheckpointError(
            f"{path} was written by another version; train again ({error})"
        ) from error


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
) -> FittedPreparation | None:
    """Return the preparation of a run's inputs, fitted to its training samples.

    It is fitted once, when the run starts, and stored in its checkpoint.  Checkpoints of version
    0.1 do not contain it.
    """
    if dataset.preparation is None:
        return None
    if state is None or "preparation" not in state:
        splits = run.training_splits(dataset)
        return dataset.fit_preparation({name: split.in_ for name, split in splits.items()})
    try:
        return dataset.preparation.from_json(state["preparation"])
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
