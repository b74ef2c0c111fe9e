"""Checkpoints of networks: nested state in one safetensors file, tensors with a JSON header.

Reading a checkpoint never runs code.
"""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import save
from torch import Tensor

from shiftproof.core.files import write_atomically
from shiftproof.training.array_state import State as State, packed, read_state


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
