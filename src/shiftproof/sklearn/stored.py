"""A fitted estimator on disk: the model file, and a second file with the estimator's own data."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone  # type: ignore[import-untyped]

from shiftproof.core.errors import CheckpointError, InvalidValue, ShiftproofError
from shiftproof.core.files import write_atomically
from shiftproof.core.json_values import conform
from shiftproof.core.text import reason_of
from shiftproof.inference.model import TrainedModel
from shiftproof.inference.model_file import MODEL
from shiftproof.learners.ensemble import dumped, loaded
from shiftproof.sklearn.inputs import Kind

ESTIMATOR = "estimator.json"
FORMAT = 1
KEYS = frozenset(
    ["params", "classes", "domains", "kind", "n_features_in", "feature_names_in", "history"]
)
_TYPES: dict[str, Any] = {
    "params": Mapping[str, Any],
    "kind": Kind,
    "n_features_in": int | None,
    "history": tuple[Mapping[str, Any], ...],
}


def write_fitted(folder: Path, model: TrainedModel, described: dict[str, Any]) -> None:
    """Write both files, the estimator file last, so that it never describes another model."""
    try:
        text = json.dumps({"format": FORMAT, **described}, indent=2, default=_plain)
    except TypeError as error:
        raise InvalidValue(f"the estimator cannot be saved: {error}") from error
    (folder / ESTIMATOR).unlink(missing_ok=True)
    model.save(folder)
    write_atomically(folder / ESTIMATOR, text.encode() + b"\n")


def is_run(folder: Path) -> bool:
    """Return whether a folder holds a finished run: a model, but no estimator."""
    has_model = (folder / MODEL).is_file() and (folder / "config.json").is_file()
    return has_model and not (folder / ESTIMATOR).is_file()


def read_fitted(folder: Path, device: str) -> tuple[TrainedModel, dict[str, Any]]:
    """Read what `write_fitted` wrote."""
    path = folder / ESTIMATOR
    if not path.is_file():
        raise CheckpointError(f"{folder} holds no {ESTIMATOR}; give a folder written by save()")
    try:
        described = json.loads(path.read_bytes())
        known = described["format"] == FORMAT
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged; save the estimator again") from error
    if not known:
        raise CheckpointError(f"{path} is of another version; upgrade shiftproof to read it")
    if absent := KEYS - described.keys():
        raise CheckpointError(f"{path} is damaged: it lacks {min(absent)}; save it again")
    with damaged_estimator(folder):
        for name, kind in _TYPES.items():
            conform(described[name], kind, name)
    return TrainedModel.load(folder, device), described


@contextlib.contextmanager
def damaged_estimator(folder: Path) -> Iterator[None]:
    """Convert errors about values in an estimator file to a `CheckpointError` of one line."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, ShiftproofError):
            raise
        reason = reason_of(error)
        raise CheckpointError(
            f"{folder / ESTIMATOR} is damaged ({reason}); save the estimator again"
        ) from error


def stored_algorithm(algorithm: Any) -> Any:
    """Return the parameter `algorithm` as JSON: a name, None, or an estimator stored by skops."""
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
