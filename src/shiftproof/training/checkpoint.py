"""Checkpoints are data: nested state as one safetensors file, tensors beside a JSON header.

Reading one runs no code.  Writing one is all or nothing: aside first, then renamed.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from shiftproof.core.errors import CheckpointError, RunConflict

State = dict[str, Any]


def write_atomically(path: Path, data: bytes) -> None:
    """Put ``data`` at ``path`` so that any reader, after any crash, sees the old or the new."""
    aside = path.with_name(path.name + ".new")
    if path.is_dir():
        raise RunConflict(f"{path} is a folder, and a file is to be written there; name another")
    with open(aside, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)
    with contextlib.suppress(OSError):  # not every system can flush a folder
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def save_state(path: Path, state: State) -> None:
    """Write nested dicts and lists of tensors and JSON values."""
    tensors: dict[str, Tensor] = {}
    tree = _pack(state, "", tensors)
    write_atomically(path, save(tensors, metadata={"tree": json.dumps(tree)}))


def load_state(path: Path) -> State | None:
    """Return what `save_state` wrote, on the CPU, or None if there is nothing."""
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            tree = json.loads((file.metadata() or {})["tree"])
        state: State = _unpack(tree, tensors)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path} is not a readable checkpoint ({error}); delete it to start over"
        ) from error
    return state


# In the tree a tensor is {"tensor": name}, a dict {"dict": [[key, value], …]} (optimisers use
# integer keys, which a JSON object would turn into text), a list or tuple {"list": […]}, and
# anything else stands for itself.


def _pack(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        # Cloned, because safetensors refuses tensors that share memory.
        tensors[path] = value.detach().cpu().clone().contiguous()
        return {"tensor": path}
    if isinstance(value, dict):
        return {"dict": [[k, _pack(v, f"{path}/{k}", tensors)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        return {"list": [_pack(v, f"{path}/{i}", tensors) for i, v in enumerate(value)]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a checkpoint cannot hold {type(value).__name__} at {path or 'its root'}")


def _unpack(node: Any, tensors: dict[str, Tensor]) -> Any:
    if not isinstance(node, dict):
        return node
    if "tensor" in node:
        return tensors[node["tensor"]]
    if "list" in node:
        return [_unpack(item, tensors) for item in node["list"]]
    return {key: _unpack(item, tensors) for key, item in node["dict"]}
