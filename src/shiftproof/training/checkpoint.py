"""Checkpoints: nested state in one safetensors file, tensors with a JSON header.

Reading a checkpoint never runs code.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from shiftproof.core.errors import CheckpointError
from shiftproof.core.file_format import FORMAT, KEY, check_format
from shiftproof.core.files import require_regular, write_atomically
from shiftproof.core.text import reason_of

State = dict[str, Any]


def save_state(path: Path, state: State) -> None:
    """Write nested dicts and lists of tensors and JSON values."""
    tensors: dict[str, Tensor] = {}
    tree = _pack(state, "", tensors)
    header = {KEY: str(FORMAT), "tree": json.dumps(tree)}
    write_atomically(path, save(tensors, metadata=header))


def load_state(path: Path) -> State | None:
    """Return what `save_state` wrote, on the CPU, or None if there is nothing."""
    require_regular(path)
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            check_format(header.get(KEY), path)
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            tree = json.loads(header["tree"])
        state: State = _unpack(tree, tensors)
        if not isinstance(state, dict):
            raise TypeError("its state is not a dictionary")
    except (
        *(SafetensorError, OSError, AttributeError, LookupError, TypeError, ValueError),
        RecursionError,
    ) as error:
        reason = reason_of(error)
        raise CheckpointError(
            f"{path} is not a readable checkpoint ({reason}); delete it to start over"
        ) from error
    return state


# In the tree, a tensor is {"tensor": name}, a dict {"dict": [[key, value], …]} (optimisers use
# integer keys, which a JSON object would turn into text) and a list or tuple {"list": […]}; other
# values are stored as they are.


def _pack(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        # Cloned, because safetensors rejects tensors that share memory.
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
