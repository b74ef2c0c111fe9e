"""A fitted estimator on disk: the model's file, and a second one with the estimator's own data."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone  # type: ignore[import-untyped]

from shiftproof.core.errors import CheckpointError, InvalidValue
from shiftproof.core.files import write_atomically
from shiftproof.inference.model import TrainedModel
from shiftproof.learners.ensemble import dumped, loaded

ESTIMATOR = "estimator.json"
FORMAT = 1
KEYS = frozenset(
    ["params", "classes", "domains", "kind", "n_features_in", "feature_names_in", "history"]
)


def write_fitted(folder: Path, model: TrainedModel, described: dict[str, Any]) -> None:
    """Write both files, the second one last, so that it never describes another model."""
    try:
        text = json.dumps({"format": FORMAT, **described}, indent=2, default=_plain)
    except TypeError as error:
        raise InvalidValue(f"the estimator cannot be saved: {error}") from error
    (folder / ESTIMATOR).unlink(missing_ok=True)
    model.save(folder)
    write_atomically(folder / ESTIMATOR, text.encode() + b"\n")


def read_fitted(folder: Path, device: str) -> tuple[TrainedModel, dict[str, Any]]:
    """Read what `write_fitted` wrote."""
    path = folder / ESTIMATOR
    if not path.is_file():
        raise CheckpointError(f"{folder} holds no {ESTIMATOR}; give a folder written by save()")
    try:
        described = json.loads(path.read_bytes())
        known = described["format"] == FORMAT
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is damaged; save the estimator again") from error
    if not known:
        raise CheckpointError(f"{path} is of another version; upgrade shiftproof to read it")
    if absent := KEYS - described.keys():
        raise CheckpointError(f"{path} is damaged: it lacks {min(absent)}; save it again")
    return TrainedModel.load(folder, device), described


def stored_algorithm(algorithm: Any) -> Any:
    """Return the parameter `algorithm` as JSON values: its name, none, or an estimator by skops."""
    if algorithm is None or isinstance(algorithm, str):
        return algorithm
    return {"skops": base64.b64encode(dumped(clone(algorithm))).decode()}


def read_algorithm(value: Any) -> Any:
    """Rebuild what `stored_algorithm` returned."""
    named = value is None or isinstance(value, str)
    return value if named else loaded(base64.b64decode(value["skops"]))


def _plain(value: Any) -> Any:
    """Return a NumPy number or array as JSON values."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} cannot be written")
