"""Nested state in one safetensors file: arrays with a JSON header.

Reading a file never runs code.  `training.checkpoint` does the same with tensors.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from shiftproof.core.errors import CheckpointError
from shiftproof.core.files import require_regular, write_atomically
from shiftproof.core.migrations import FORMAT, KEY, current
from shiftproof.core.text import reason_of

State = dict[str, Any]


def save_arrays(path: Path, state: State) -> None:
    """Write nested dicts and lists of arrays and JSON values."""
    arrays: dict[str, np.ndarray] = {}
    header = packed(state, np.ndarray, np.ascontiguousarray, arrays)
    write_atomically(path, save(arrays, metadata=header))


def load_arrays(path: Path) -> State | None:
    """Return the state that `save_arrays` wrote, or None if there is no file."""
    return read_state(path, "np")


def packed(
    state: State, leaf: type[Any], stored: Callable[[Any], Any], leaves: dict[str, Any]
) -> dict[str, str]:
    """Return the header of a state, and add its leaves, in stored form, to `leaves`."""
    return {KEY: str(FORMAT), "tree": json.dumps(_pack(state, "", leaf, stored, leaves))}


def read_state(path: Path, framework: str) -> State | None:
    """Return the state in a file, its leaves in a safetensors framework; None if there is none."""
    require_regular(path)
    if not path.exists():
        return None
    try:
        with safe_open(path, framework=framework) as file:
            header = current(file.metadata() or {}, "state", path)
            leaves = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            tree = json.loads(header["tree"])
        state: State = _unpack(tree, leaves)
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


def _pack(
    value: Any, path: str, leaf: type[Any], stored: Callable[[Any], Any], leaves: dict[str, Any]
) -> Any:
    def pack(inner: Any, key: object) -> Any:
        return _pack(inner, f"{path}/{key}", leaf, stored, leaves)

    if isinstance(value, leaf):
        leaves[path] = stored(value)
        return {"tensor": path}
    if isinstance(value, dict):
        return {"dict": [[key, pack(item, key)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return {"list": [pack(item, index) for index, item in enumerate(value)]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a checkpoint cannot hold {type(value).__name__} at {path or 'its root'}")


def _unpack(node: Any, leaves: dict[str, Any]) -> Any:
    if not isinstance(node, dict):
        return node
    if "tensor" in node:
        return leaves[node["tensor"]]
    if "list" in node:
        return [_unpack(item, leaves) for item in node["list"]]
    return {key: _unpack(item, leaves) for key, item in node["dict"]}
