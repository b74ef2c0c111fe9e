"""Checkpoints of networks: nested state in one safetensors file, tensors with a JSON header.

Reading a checkpoint never runs code.  `weights_in_place` loads the weights of a network from the
checkpoint of its run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors.torch import save
from torch import Tensor

from shiftproof.core.files import write_atomically
from shiftproof.learners.algorithms import Algorithm
from shiftproof.training.array_state import State as State, packed, read_state
from shiftproof.training.averaging import AVERAGES
from shiftproof.training.config import RunConfig
from shiftproof.training.load_run import existing_state, unfit_checkpoint
from shiftproof.training.run_folder import RunFolder


def save_state(path: Path, state: State) -> None:
    """Write nested dicts and lists of tensors and JSON values."""
    tensors: dict[str, Tensor] = {}
    header = packed(state, Tensor, _stored, tensors)
    write_atomically(path, save(tensors, metadata=header))


def load_state(path: Path) -> State | None:
    """Return the state that `save_state` wrote, on the CPU, or None if there is no file."""
    return read_state(path, "pt")


def _stored(tensor: Tensor) -> Tensor:
    # Cloned, because safetensors rejects tensors that share memory.
    return tensor.detach().cpu().clone().contiguous()


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
            weights = {name.removeprefix(f"{part}."): modules[name] for name in names}
            getattr(algorithm, part).load_state_dict(weights)
        average.load(state)
    except (KeyError, RuntimeError, ValueError) as error:
        raise unfit_checkpoint(folder, error) from error
    with average.in_place():
        yield
