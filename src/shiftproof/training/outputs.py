"""The outputs of a run on its test domains, row by row: the file `held_out.safetensors`.

All measures on a held-out domain (accuracy, AUROC, calibration, intervals) are computed from this
file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from shiftproof.core.errors import CheckpointError
from shiftproof.core.types import REGRESSION, Task
from shiftproof.metrics.outputs import AnyOutputs, NumberOutputs, Outputs
from shiftproof.training.array_state import load_arrays, save_arrays
from shiftproof.training.run_folder import HELD_OUT as HELD_OUT


def in_row_order(
    task: Task, predicted: np.ndarray, labels: np.ndarray, rows: np.ndarray
) -> AnyOutputs:
    """Return the outputs in the order of the rows.

    `predicted` are probabilities [n, c], or numbers [n, 1] in standard units, like the labels [n].
    """
    order = np.argsort(rows, kind="stable")
    if task.kind == REGRESSION:
        predicted, labels = (
            task.in_units(part.astype(np.float64).reshape(len(part), -1))[order]
            for part in (predicted, labels)
        )
        return NumberOutputs(predicted, labels, rows[order])
    return Outputs(predicted[order], labels[order], rows[order])


def as_stored(outputs: Mapping[str, AnyOutputs]) -> dict[str, AnyOutputs]:
    """Return the outputs as `load_outputs` reads them: probabilities in single precision."""
    return {domain: _outputs(arrays) for domain, arrays in _arrays(outputs).items()}


def save_outputs(path: Path, outputs: Mapping[str, AnyOutputs]) -> None:
    """Write the outputs of each domain."""
    save_arrays(path, _arrays(outputs))


def load_outputs(path: Path) -> dict[str, AnyOutputs]:
    """Return the outputs of each domain; empty if there is no file."""
    stored = load_arrays(path) or {}
    try:
        return {domain: _outputs(arrays) for domain, arrays in stored.items()}
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path} is damaged ({error}); delete the run to start over"
        ) from error


def _arrays(outputs: Mapping[str, AnyOutputs]) -> dict[str, dict[str, np.ndarray]]:
    """Return the outputs of each domain as they are stored: probabilities in single precision."""
    stored = {domain: dict(predicted._asdict()) for domain, predicted in outputs.items()}
    for arrays in stored.values():
        if "probabilities" in arrays:
            arrays["probabilities"] = arrays["probabilities"].astype(np.float32)
    return stored


def _outputs(stored: Mapping[str, np.ndarray]) -> AnyOutputs:
    """Return outputs from their stored form; raise `ValueError` for any other."""
    numbers = "predicted" in stored
    fields = NumberOutputs._fields if numbers else Outputs._fields
    predicted, labels, rows = (stored[name] for name in fields)
    shaped = predicted.ndim == (1 if numbers else 2) and labels.ndim == 1
    if not (shaped and labels.shape == rows.shape == predicted.shape[:1]):
        raise ValueError(f"{', '.join(fields)} do not fit each other")
    if rows.dtype != np.int64 or not (np.isfinite(predicted).all() and np.isfinite(labels).all()):
        raise ValueError("rows must be whole numbers, predictions and labels finite")
    if numbers:
        return NumberOutputs(predicted.astype(np.float64), labels.astype(np.float64), rows)
    if labels.dtype != np.int64:
        raise ValueError("labels must be whole numbers")
    if len(labels) and not (labels.min() >= 0 and labels.max() < predicted.shape[1]):
        raise ValueError("a label is not one of the classes")
    if not (predicted >= 0).all():
        raise ValueError("a probability is not a number in [0, 1]")
    return Outputs(predicted.astype(np.float64), labels, rows)
