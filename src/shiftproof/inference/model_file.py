"""The file of a trained model: its header with the schema, its content, and messages.

The file is safetensors, with a JSON header.  Reading it runs no code, and invalid content is
rejected.
"""

from __future__ import annotations

import json
import math
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import safetensors
import safetensors.numpy
from safetensors import SafetensorError

import shiftproof
from shiftproof.core.errors import CheckpointError, DataError
from shiftproof.core.json_values import conform, conform_fields
from shiftproof.core.migrations import current, with_format
from shiftproof.core.space import Regime
from shiftproof.core.standardize import ADAPTATION
from shiftproof.core.text import counted, reason_of
from shiftproof.core.types import CROSS_ENTROPY, Task
from shiftproof.data.domain import as_array
from shiftproof.data.input_forms import InputForm, TableForm, form_from_json
from shiftproof.inference.adaptation.label_shift import LabelShift
from shiftproof.inference.adaptation.recalibrate import Update
from shiftproof.inference.conformal import HalfWidths
from shiftproof.inference.row_predictor import RowPredictor
from shiftproof.inference.typicality import Typicality
from shiftproof.learners.base import ALGORITHMS
from shiftproof.training.config import RunConfig
from shiftproof.training.fitting import build_exact
from shiftproof.training.load_run import without_starting_weights
from shiftproof.training.run_folder import MODEL as MODEL

if TYPE_CHECKING:
    from shiftproof.inference.model import TrainedModel
    from shiftproof.inference.predictor import Predictor


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
            described = _migrated(stored.metadata()[HEADER], file)
        check_header(described)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{file} is not a valid model file ({error}); train again") from error
    return described


def header_of(data: bytes, where: object) -> dict[str, Any]:
    """Return the model's description from the header of a safetensors file."""
    length = int.from_bytes(data[:8], "little")
    header: dict[str, Any] = json.loads(data[8 : 8 + length])["__metadata__"]
    return _migrated(header[HEADER], where)


def _migrated(text: str, where: object) -> dict[str, Any]:
    described = json.loads(text)
    conform(described, Mapping[str, Any], "the header")
    return current(described, "model", where)


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


T = TypeVar("T")


def under(prefix: str, tensors: Mapping[str, T]) -> dict[str, T]:
    """Return the tensors whose names begin with `prefix`, with the prefix removed."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


_TASK = {
    "input_shape": tuple[int, ...],
    "num_classes": int,
    "num_domains": int,
    "regime": Regime,
    "loss": str,
    "center": tuple[float, ...],
    "scale": tuple[float, ...],
}
# Fields of regression tasks only (see `Task.to_json`).
_OF_NUMBERS = ("loss", "center", "scale")
_FORM: dict[str, dict[str, Any]] = {
    "table": {
        "kind": str,
        "columns": tuple[Any, ...],
        "missing_indicators": bool,
        "parts": tuple[Any, ...],
        "notes": tuple[str, ...],
        "raw": bool,
        "standardize": typing.Literal["none", "domain", "whiten"],
    },
    "images": {"kind": str, "image_size": int},
    "tensor": {"kind": str, "shape": tuple[int, ...]},
}
_COLUMN = {"name": str, "kind": typing.Literal["number", "category"], "values": tuple[str, ...]}
_PARTS: dict[str, dict[str, Any]] = {
    "scaled": {"kind": str, "column": int, "median": float, "mean": float, "std": float},
    "one-hot": {"kind": str, "column": int, "codes": tuple[int, ...]},
    "is-missing": {"kind": str, "column": int},
}
_LIST, _TABLE = tuple[float, ...], tuple[tuple[float, ...], ...]
_LABEL_SHIFT = {
    **dict.fromkeys(("shares", "bias", "error"), _LIST),
    **dict.fromkeys(("slope", "gap", "gap_spread"), float),
    "domains": int,
}
_UPDATE = {
    "method": typing.Literal["original", "intercept", "slope", "revision"],
    "slope": float,
    "intercepts": _LIST,
    "effects": _TABLE,
    "columns": tuple[int, ...],
    "center": _LIST,
    "scale": _LIST,
}


def check_header(described: Mapping[str, Any]) -> None:
    """Raise `ValueError` unless a header in the current format is well formed."""
    conform_fields(
        described,
        {
            "version": str,
            "config": Mapping[str, Any],
            "task": Mapping[str, Any],
            "classes": tuple[str, ...],
            "domains": tuple[str, ...],
            "form": Mapping[str, Any],
            "columns": Mapping[str, str],
            "label_shift": _LABEL_SHIFT,
            "update": _UPDATE,
            "temperature": float,
            "targets": tuple[str, ...],
            "half_widths": tuple[Any, ...],
        },
        "the header",
        optional=("label_shift", "update", "temperature", "targets", "half_widths"),
    )
    conform_fields(described["task"], _TASK, "task", _OF_NUMBERS)
    RunConfig.from_json(described["config"])
    _check_form(described["form"])
    task, classes = described["task"], described["classes"]
    _require(all(size > 0 for size in task["input_shape"]), "task.input_shape must be positive")
    _require(len(set(classes)) == len(classes), "a class occurs twice")
    _require(len(classes) == task["num_classes"], "classes and task.num_classes differ")
    _require(bool(classes) != bool(described.get("targets")), "it has neither classes nor targets")
    loss = described["config"].get("loss", CROSS_ENTROPY)
    _require(loss == task.get("loss", CROSS_ENTROPY), "config.loss and task.loss differ")
    _require((loss == CROSS_ENTROPY) == bool(classes), "loss and classes do not fit each other")
    center, scale = task.get("center", (0.0,)), task.get("scale", (1.0,))
    _require(all(map(math.isfinite, center)), "task.center must be finite")
    _require(all(0 < each < math.inf for each in scale), "task.scale must be positive")
    targets, widths = described.get("targets", ()), described.get("half_widths", ())
    _require(len(center) == len(scale) == 1, "task.center and task.scale must have one entry")
    _require(max(len(targets), len(widths)) <= 1, "it predicts more than one number")
    _require(task["num_domains"] > 0, "task.num_domains must be positive")
    _require(0 < described.get("temperature", 1.0) < math.inf, "temperature must be positive")
    _require(not ("half_widths" in described and classes), "classes have no half_widths")
    if "label_shift" in described:
        own = described["label_shift"]
        lengths = {len(own[name]) for name in ("shares", "bias", "error")}
        _require(lengths == {len(classes)}, "label_shift and classes differ")
        _require(own["domains"] > 1, "label_shift.domains must be at least 2")
    if "update" in described:
        own = len(described["update"]["intercepts"])
        _require(own == len(classes), "update and classes differ")


def _check_form(form: Mapping[str, Any]) -> None:
    kind = form.get("kind")
    conform(kind, str, "form.kind")
    if kind not in _FORM:
        return  # from a newer version: `form_from_json` raises
    conform_fields(form, _FORM[kind], "form", optional=("notes", "raw", "standardize"))
    if kind == "images":
        _require(form["image_size"] > 0, "form.image_size must be positive")
    elif kind == "tensor":
        _require(all(size > 0 for size in form["shape"]), "form.shape must be positive")
    else:
        for position, column in enumerate(form["columns"]):
            conform_fields(column, _COLUMN, f"form.columns[{position}]")
        for position, part in enumerate(form["parts"]):
            where = f"form.parts[{position}]"
            conform(part, Mapping[str, Any], where)
            conform(part.get("kind"), str, f"{where}.kind")
            _require(part["kind"] in _PARTS, f"{where}.kind is unknown")
            conform_fields(part, _PARTS[part["kind"]], where)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(message)


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
    header = json.dumps(with_format(model_description(model)), ensure_ascii=False)
    return safetensors.numpy.save(arrays, metadata={HEADER: header})


def model_fields(data: bytes, device: str, where: str) -> dict[str, Any]:
    """Return the model's fields from the content of a file, or raise if it is not valid."""
    try:
        tensors = safetensors.numpy.load(data)
        described = header_of(data, where)
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
    rows = ALGORITHMS.get(config.algorithm).exact and not config.extractor
    built = without_starting_weights(config, "cpu" if rows else device)
    task = Task.from_json(described["task"])
    form = form_from_json(described["form"])
    known = config.standardize in ADAPTATION
    if not known or getattr(form, "standardize", config.standardize) != config.standardize:
        raise ValueError("how its rows are standardized is unknown")
    if not config.extractor and form.input_shape != task.input_shape:
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
