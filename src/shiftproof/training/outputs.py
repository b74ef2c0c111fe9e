"""What a run answered on its test domains, row by row: the file `held_out.safetensors`.

Everything that is said about a held-out domain (accuracy, AUROC, calibration, intervals) is
computed from this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from shiftproof.core.errors import CheckpointError
from shiftproof.models.risk import class_probabilities
from shiftproof.training.checkpoint import load_state, save_state

HELD_OUT = "held_out.safetensors"


class Outputs(NamedTuple):
    """Probabilities [n, classes] and labels [n] of samples, and their positions in the domain."""

    probabilities: np.ndarray
    labels: np.ndarray
    rows: np.ndarray


def outputs_of(logits: Tensor, labels: Tensor, rows: np.ndarray) -> Outputs:
    """Return outputs in the order of the rows."""
    order = np.argsort(rows, kind="stable")
    probabilities = class_probabilities(logits.double()).numpy()
    return Outputs(probabilities[order], labels.numpy()[order], rows[order])


def save_outputs(folder: Path, outputs: Mapping[str, Outputs]) -> None:
    """Write the outputs of each domain; probabilities in single precision."""
    save_state(
        folder / HELD_OUT,
        {
            domain: {
                "probabilities": torch.from_numpy(own.probabilities).float(),
                "labels": torch.from_numpy(own.labels),
                "rows": torch.from_numpy(own.rows),
            }
            for domain, own in outputs.items()
        },
    )


def load_outputs(folder: Path) -> dict[str, Outputs]:
    """Return the outputs of each domain; none if the run kept none."""
    stored = load_state(folder / HELD_OUT) or {}
    try:
        return {domain: _outputs(own) for domain, own in stored.items()}
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{folder / HELD_OUT} is damaged ({error}); delete the run to start over"
        ) from error


def _outputs(stored: Mapping[str, Tensor]) -> Outputs:
    """Return outputs as `save_outputs` wrote them; any others are a `ValueError`."""
    probabilities, labels, rows = (stored[name] for name in Outputs._fields)
    if probabilities.ndim != 2 or not labels.shape == rows.shape == probabilities.shape[:1]:
        raise ValueError("probabilities, labels and rows do not fit each other")
    if labels.dtype != torch.int64 or rows.dtype != torch.int64:
        raise ValueError("labels and rows must be whole numbers")
    if len(labels) and not (labels.min() >= 0 and labels.max() < probabilities.shape[1]):
        raise ValueError("a label is not one of the classes")
    if not (probabilities.isfinite().all() and (probabilities >= 0).all()):
        raise ValueError("a probability is not a number in [0, 1]")
    return Outputs(probabilities.double().numpy(), labels.numpy(), rows.numpy())
