"""Load the weights of a network from the checkpoint of its run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shiftproof.learners.algorithms import Algorithm
from shiftproof.training.averaging import AVERAGES
from shiftproof.training.checkpoint import State, load_state
from shiftproof.training.config import RunConfig
from shiftproof.training.load_run import existing_state, unfit_checkpoint
from shiftproof.training.run_folder import RunFolder


def read_checkpoint(folder: Path) -> State:
    """Return the state of the run in a folder."""
    return existing_state(load_state(RunFolder(folder).checkpoint), folder)


@contextmanager
def weights_in_place(
    folder: Path, run: RunConfig, algorithm: Algorithm, state: State
) -> Iterator[None]:
    """Load the weights of a checkpoint; inside the context, their average if the run has one."""
    average = AVERAGES[run.average](algorithm)
    try:
        modules = state["algorithm"]["modules"]
        for part in algorithm.predicts_with:  # other state may be from an older version
            names = [name for name in modules if name.startswith(f"{part}.")]
            own = {name.removeprefix(f"{part}."): modules[name] for name in names}
            getattr(algorithm, part).load_state_dict(own)
        average.load(state)
    except (KeyError, RuntimeError, ValueError) as error:
        raise unfit_checkpoint(folder, error) from error
    with average.in_place():
        yield
