"""A run taken up again from its folder: what determined it, its samples, and its weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from shiftproof.core.errors import CheckpointError, DataError
from shiftproof.data import DomainDataset
from shiftproof.data.splits import Split, split_domain
from shiftproof.learners.algorithms import Algorithm
from shiftproof.models.weights import RANDOM
from shiftproof.training.averaging import AVERAGES
from shiftproof.training.config import RunConfig, choose_device
from shiftproof.training.run_folder import RunFolder, read_json


def read_run(folder: Path) -> RunConfig:
    """Return what determined the run in a folder."""
    path = folder / "config.json"
    if not path.is_file():
        raise DataError(f"{folder} holds no run: there is no {path.name}")
    try:
        return RunConfig.from_json(read_json(path))
    except TypeError as error:
        raise CheckpointError(f"{path} is not of a run of this version ({error})") from error


def training_splits(run: RunConfig, dataset: DomainDataset) -> dict[str, Split]:
    """Return which samples of each training domain a run is trained on, and which it holds out."""
    return {
        domain.name: split_domain(len(domain), run.holdout, run.data_seed, index)
        for index, domain in enumerate(dataset.domains)
        if domain.name not in run.test_domains
    }


def without_starting_weights(run: RunConfig, device: str = "auto") -> RunConfig:
    """Return a run whose network is built without the weights to start from, for those to come."""
    started = {**run.hparams, **({"weights": RANDOM} if "weights" in run.hparams else {})}
    return replace(run, hparams=started, device=choose_device(device), weights_file="")


@contextmanager
def weights_in_place(folder: Path, run: RunConfig, algorithm: Algorithm) -> Iterator[None]:
    """Load the checkpoint, and its averaged weights for the while if the run averages."""
    state = RunFolder(folder).load()
    if state is None:
        raise DataError(f"the run in {folder} has no checkpoint yet; let it train for a while")
    average = AVERAGES[run.average](algorithm)
    try:
        modules = state["algorithm"]["modules"]
        for part in algorithm.predicts_with:  # what else is state may be of an older version
            names = [name for name in modules if name.startswith(f"{part}.")]
            own = {name.removeprefix(f"{part}."): modules[name] for name in names}
            getattr(algorithm, part).load_state_dict(own)
        average.load(state)
    except (KeyError, RuntimeError, ValueError) as error:
        raise CheckpointError(
            f"the checkpoint in {folder} does not fit this version ({error})"
        ) from error
    with average.in_place():
        yield
