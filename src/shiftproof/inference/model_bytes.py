"""Conversion of a model to the content of its file, and back.

The file is safetensors, with a JSON header (`model_file`).  Reading it runs no code, and invalid
content is rejected.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

import shiftproof
from shiftproof.core.errors import CheckpointError
from shiftproof.core.standardize import ADAPTATION
from shiftproof.core.text import printable, reason_of
from shiftproof.core.types import Task
from shiftproof.data.domain import as_array
from shiftproof.data.input_forms import InputForm, TableForm, form_from_json
from shiftproof.inference.adaptation.label_shift import LabelShift
from shiftproof.inference.adaptation.recalibrate import Update
from shiftproof.inference.conformal import HalfWidths
from shiftproof.inference.model_file import HEADER, check_header, header_of, require_finite, under
from shiftproof.inference.row_predictor import RowPredictor
from shiftproof.inference.typicality import Typicality
from shiftproof.learners.base import ALGORITHMS
from shiftproof.training.config import RunConfig
from shiftproof.training.fitting import build_exact
from shiftproof.training.load_run import without_starting_weights

if TYPE_CHECKING:
    from shiftproof.inference.model import TrainedModel
    from shiftproof.inference.predictor import Predictor

FORMAT = 1


def model_bytes(model: TrainedModel) -> bytes:
    """Return the content of a model file."""
    parts: dict[str, Mapping[str, Any]] = {
        "network": model.network.weights(),
        "typicality": model.typicality.arrays() if model.typicality else {},
    }
    arrays = {
        f"{part}.{name}": as_array(value)
        for part, own in parts.items()
        for name, value in own.items()
    }
    header = json.dumps(model_description(model), ensure_ascii=False)
    return safetensors.numpy.save(arrays, metadata={HEADER: header})


def model_fields(data: bytes, device: str, where: str) -> dict[str, Any]:
    """Return the model's fields from the content of a file, or raise if it is not valid."""
    try:
        tensors = safetensors.numpy.load(data)
        described = header_of(data)
        if described["format"] != FORMAT:
            found = printable(str(described["format"]))[:20]
            raise CheckpointError(
                f"{where} has format {found}, but this version reads {FORMAT}; upgrade shiftproof"
            )
        check_header(described)
        require_finite(tensors)
        return _fields(described, tensors, device)
    except (
        *(SafetensorError, ArithmeticError, AttributeError, LookupError),
        *(RuntimeError, TypeError, ValueError),
    ) as error:
        raise CheckpointError(
            f"{where} is not a valid model file ({reason_of(error)}); train again"
        ) from error


def model_description(model: TrainedModel) -> dict[str, Any]:
    """Return everything but the weights, as JSON values."""
    found: dict[str, Any] = {
        "format": FORMAT,
        "version": shiftproof.__version__,
        "config": model.config.to_json(),
        "task": model.task.to_json(),
        "classes": list(model.classes),
        "domains": list(model.domains),
        "form": model.form.to_json(),
        "columns": dict(model.columns),
    }
    if model.label_shift is not None:
        found["label_shift"] = model.label_shift.to_json()
    if model.update is not None:
        found["update"] = model.update.to_json()
    if model.targets:
        found["targets"] = list(model.targets)
    if model.half_widths is not None:
        found["half_widths"] = [model.half_widths.to_json()]
    # Absent in models without a temperature, including those of earlier versions.
    if model.temperature != 1:
        found["temperature"] = model.temperature
    return found


def _fields(
    described: Mapping[str, Any], tensors: Mapping[str, np.ndarray], device: str
) -> dict[str, Any]:
    """Return the fields of a model from its checked header and its arrays."""
    config = RunConfig.from_json(described["config"])
    rows = ALGORITHMS.get(config.algorithm).exact and not config.frozen
    built = without_starting_weights(config, "cpu" if rows else device)
    task = Task.from_json(described["task"])
    form = form_from_json(described["form"])
    known = config.standardize in ADAPTATION
    if not known or getattr(form, "standardize", config.standardize) != config.standardize:
        raise ValueError("how its rows are standardized is unknown")
    if not config.frozen and form.input_shape != task.input_shape:
        raise ValueError(f"inputs of shape {form.input_shape} for a network of {task.input_shape}")
    stored = under("typicality.", tensors)
    typicality = Typicality.from_arrays(stored) if stored or not config.private else None
    if typicality and isinstance(form, TableForm):
        typicality.require_width(len(form.columns.feature_names))
    network: Predictor | RowPredictor
    if rows:
        network = RowPredictor(build_exact(built, task))
    else:
        from shiftproof.inference.predictor import network_predictor

        temperature = float(described.get("temperature", 1.0))
        network = network_predictor(built, task, form.input_shape, temperature)
    network.load(under("network.", tensors))
    shift = LabelShift.from_json(described["label_shift"]) if "label_shift" in described else None
    return {
        "config": config,
        "task": task,
        "classes": tuple(described["classes"]),
        "domains": tuple(described["domains"]),
        "form": form,
        "network": network,
        "typicality": typicality,
        "columns": described["columns"],
        "device": built.device,
        "label_shift": shift,
        "update": _update(described, form),
        "targets": tuple(described.get("targets", ())),
        "half_widths": next(map(HalfWidths.from_json, described.get("half_widths", ())), None),
    }


def _update(described: Mapping[str, Any], form: InputForm) -> Update | None:
    """Return the update of a model to a new site; only tables have columns in an update."""
    if "update" not in described:
        return None
    found = Update.from_json(described["update"])
    width = len(form.columns.feature_names) if isinstance(form, TableForm) else 0
    if (found.columns >= width).any():
        raise ValueError(f"the update of the model needs more than its {width} features")
    return found
