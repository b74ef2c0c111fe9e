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
    return {
        domain: predicted._replace(
            probabilities=predicted.probabilities.astype(np.float32).astype(np.float64)
        )
        if isinstance(predicted, Outputs)
        else predicted
        for domain, predicted in outputs.items()
    }


def save_outputs(path: Path, outputs: Mapping[str, AnyOutputs]) -> None:
    """Write the outputs of each domain, with probabilities in single precision."""
    save_arrays(
        path,
        {
            domain: {
                name: value.astype(np.float32) if name == "probabilities" else value
                for name, value in own._asdict().items()
            }
            for domain, own in outputs.items()
        },
    )


def load_outputs(path: Path) -> dict[str, AnyOutputs]:
    """Return the outputs of each domain; empty if there is no file."""
    stored = load_arrays(path) or {}
    try:
        return {domain: _outputs(own) for domain, own in stored.items()}
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path} is damaged ({error}); delete the run to start over"
        ) from error


def _outputs(stored: Mapping[str, np.ndarray]) -> AnyOutputs:
    """Return outputs in the form that `save_outputs` writes; raise `ValueError` for any other."""
    if "predicted" in stored:
        return _numbers(*(stored[name] for name in NumberOutputs._fields))
    probabilities, labels, rows = (stored[name] for name in Outputs._fields)
    if probabilities.ndim != 2 or not labels.shape == rows.shape == probabilities.shape[:1]:
        raise ValueError("probabilities, labels and rows do not fit each other")
    if labels.dtype != np.int64 or rows.dtype != np.int64:
        raise ValueError("labels and rows must be whole numbers")
    if len(labels) and not (labels.min() >= 0 and labels.max() < probabilities.shape[1]):
        raise ValueError("a label is not one of the classes")
    if not (np.isfinite(probabilities).all() and (probabilities >= 0).all()):
        raise ValueError("a probability is not a number in [0, 1]")
    return Outputs(probabilities.astype(np.float64), labels, rows)


def _numbers(predicted: np.ndarray, labels: np.ndarray, rows: np.ndarray) -> NumberOutputs:
    fits = predicted.shape == labels.shape and rows.shape == predicted.shape[:1]
    if predicted.ndim != 1 or not fits:
        raise ValueError("predicted numbers, labels and rows do not fit each other")
    if rows.dtype != np.int64 or not (np.isfinite(predicted).all() and np.isfinite(labels).all()):
        raise ValueError("rows must be whole numbers, predictions and labels finite")
    return NumberOutputs(predicted.astype(np.float64), labels.astype(np.float64), rows)
