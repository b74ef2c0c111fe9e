"""The file of a trained model: its name, its header, and messages if it cannot be read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
from safetensors import SafetensorError

from shiftproof.core.errors import CheckpointError, DataError
from shiftproof.core.text import counted
from shiftproof.inference.model_header import check_header

MODEL = "model.safetensors"
# The run on all domains, in the folder of a study.
STUDY_RUN = "model"
# The name of the model's description in the file's header.
HEADER = "shiftproof"


def stored_classes(folder: Path) -> tuple[str, ...]:
    """Return the classes of the model in the folder of a run."""
    return tuple(stored_header(folder)["classes"])


def stored_header(folder: Path) -> dict[str, Any]:
    """Return the header of the model in the folder of a run, without reading the weights."""
    file = folder / MODEL
    if not file.is_file():
        raise DataError(why_missing(folder))
    try:
        with safetensors.safe_open(file, framework="np") as stored:
            described: dict[str, Any] = json.loads(stored.metadata()[HEADER])
        check_header(described)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{file} is not a valid model file ({error}); train again") from error
    return described


def header_of(data: bytes) -> dict[str, Any]:
    """Return the model's description from the header of a safetensors file."""
    length = int.from_bytes(data[:8], "little")
    header: dict[str, Any] = json.loads(data[8 : 8 + length])["__metadata__"]
    described: dict[str, Any] = json.loads(header[HEADER])
    return described


def require_finite(arrays: Mapping[str, np.ndarray]) -> None:
    """Raise `ValueError` if an array holds NaN or infinity."""
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{name} holds values that are not finite")


def run_in(folder: Path) -> Path:
    """Return the run that a folder refers to: for a study, its run on all domains."""
    study = folder / STUDY_RUN / MODEL
    return study.parent if list(folder.glob(f"*/{MODEL}")) == [study] else folder


def why_missing(path: Path) -> str:
    """Return a message on why a folder has no model, and what to do."""
    if not path.exists():
        return f"no such run or model: {path}"
    within = sorted(file.parent.name for file in path.glob(f"*/{MODEL}"))
    if within:
        return (
            f"{path} holds {counted(len(within), 'run')}; choose one of them: {', '.join(within)}"
        )
    return (
        f"{path} holds no {MODEL}, which is written when training ends: run the same training again"
    )
