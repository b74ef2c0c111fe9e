"""The file of a trained model: safetensors with a JSON header, sealed by a hash.

The header holds the SHA-256 of the whole file, computed with zeros in place of the hash, so a file
with a changed bit is rejected.  Reading a file runs no code, and invalid content is rejected.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, get_type_hints

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from shiftproof.core.errors import CheckpointError, DataError
from shiftproof.core.json_values import conform, conform_fields
from shiftproof.core.migrations import current, with_format
from shiftproof.core.text import counted, reason_of
from shiftproof.core.types import CROSS_ENTROPY, Task
from shiftproof.data.tables.preprocessing import PARTS, Column
from shiftproof.learners.array_model import require
from shiftproof.training.config import RunConfig
from shiftproof.training.run_folder import MODEL as MODEL

# The run on all domains, in the folder of a study.
STUDY_RUN = "model"
# The name of the model's description in the file's header.
HEADER = "shiftproof"
# The key of the hash in the description, and what stands for it while it is computed.
HASH, NO_HASH = "sha256", "0" * 64


def model_bytes(described: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return the content of a model file, from its description and its arrays."""
    header = json.dumps(with_format({HASH: NO_HASH, **described}))
    data = safetensors.numpy.save(dict(arrays), metadata={HEADER: header})
    return data.replace(NO_HASH.encode(), hashlib.sha256(data).hexdigest().encode(), 1)


def read_model(data: bytes, where: object) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the checked description and the arrays of a model file; call within `valid_model`."""
    arrays = safetensors.numpy.load(data)
    digest = _header(data).get(HASH)
    # Before the format is read: a damaged format number is damage, not another version.
    without_digest = data.replace(str(digest).encode(), NO_HASH.encode(), 1)
    if digest is not None and hashlib.sha256(without_digest).hexdigest() != digest:
        raise ValueError("its content does not match its hash")
    described = header_of(data, where)
    for name, array in arrays.items():
        if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
            raise ValueError(f"{name} holds values that are not finite")
    return described, arrays


def header_of(data: bytes, where: object) -> dict[str, Any]:
    """Return the checked description in the header of a file, of which `data` is the beginning."""
    described = current(_header(data), "model", where)
    check_header(described)
    return described


def _header(data: bytes) -> dict[str, Any]:
    length = int.from_bytes(data[:8], "little")
    metadata = json.loads(data[8 : 8 + length])["__metadata__"]
    header: dict[str, Any] = json.loads(metadata[HEADER])
    conform(header, Mapping[str, Any], "the header")
    return header


def stored_header(folder: Path) -> dict[str, Any]:
    """Return the description of the model in the folder of a run, without reading its arrays."""
    file = folder / MODEL
    if not file.is_file():
        raise DataError(why_missing(folder))
    with valid_model(file), open(file, "rb") as opened:
        size = opened.read(8)
        length = min(int.from_bytes(size, "little"), file.stat().st_size)
        return header_of(size + opened.read(length), file)


@contextmanager
def valid_model(where: object) -> Iterator[None]:
    """Convert the errors of reading a model to a `CheckpointError` of one line."""
    try:
        yield
    except (
        *(SafetensorError, ArithmeticError, AttributeError, LookupError, RecursionError),
        *(RuntimeError, TypeError, ValueError, CheckpointError),
    ) as error:
        raise CheckpointError(
            f"{where} is not a valid model file ({reason_of(error)}); train again"
        ) from error


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


_LIST, _TABLE = tuple[float, ...], tuple[tuple[float, ...], ...]
_HEADER: dict[str, Any] = {
    HASH: str,
    "version": str,
    "config": RunConfig,
    "task": Task,
    "classes": tuple[str, ...],
    "domains": tuple[str, ...],
    "form": Mapping[str, Any],
    "columns": Mapping[str, str],
}
_OPTIONAL: dict[str, Any] = {
    "ensemble": Mapping[str, Any],
    "held_out_accuracy": Mapping[str, float],
    "label_shift": {
        **dict.fromkeys(("shares", "bias", "error"), _LIST),
        **dict.fromkeys(("slope", "gap", "gap_spread"), float),
        "domains": int,
    },
    "update": {
        "method": Literal["original", "intercept", "slope", "revision"],
        "slope": float,
        "effects": _TABLE,
        "columns": tuple[int, ...],
        **dict.fromkeys(("intercepts", "center", "scale"), _LIST),
    },
    "temperature": float,
    "targets": tuple[str, ...],
    "half_widths": tuple[Any, ...],
}
_FORM: dict[str, dict[str, Any]] = {
    "table": {
        "columns": tuple[Column, ...],
        "missing_indicators": bool,
        "parts": tuple[Mapping[str, Any], ...],
        "notes": tuple[str, ...],
        "raw": bool,
        "standardize": Literal["none", "domain", "whiten"],
    },
    "images": {"image_size": int},
    "tensor": {"shape": tuple[int, ...]},
}


def check_header(described: Mapping[str, Any]) -> None:
    """Raise `ValueError` unless a header in this version's format is well formed."""
    conform_fields(described, _HEADER | _OPTIONAL, "the header", _OPTIONAL)
    _check_form(described["form"])
    task, classes = described["task"], described["classes"]
    require(all(size > 0 for size in task["input_shape"]), "task.input_shape must be positive")
    require(len(set(classes)) == len(classes), "a class occurs twice")
    require(len(classes) == task["num_classes"], "classes and task.num_classes differ")
    require(bool(classes) != bool(described.get("targets")), "it has neither classes nor targets")
    loss = described["config"].get("loss", CROSS_ENTROPY)
    require(loss == task.get("loss", CROSS_ENTROPY), "config.loss and task.loss differ")
    require((loss == CROSS_ENTROPY) == bool(classes), "loss and classes do not fit each other")
    center, scale = task.get("center", (0.0,)), task.get("scale", (1.0,))
    require(len(center) == len(scale) == 1, "task.center and task.scale must have one entry")
    require(scale[0] > 0, "task.scale must be positive")
    targets, widths = described.get("targets", ()), described.get("half_widths", ())
    require(max(len(targets), len(widths)) <= 1, "it predicts more than one number")
    require(task["num_domains"] > 0, "task.num_domains must be positive")
    require(described.get("temperature", 1.0) > 0, "temperature must be positive")
    require(not (widths and classes), "classes have no half_widths")
    if label_shift := described.get("label_shift"):
        lengths = {len(label_shift[name]) for name in ("shares", "bias", "error")}
        require(lengths == {len(classes)}, "label_shift and classes differ")
        require(label_shift["domains"] > 1, "label_shift.domains must be at least 2")
    if update := described.get("update"):
        require(len(update["intercepts"]) == len(classes), "update and classes differ")


def _check_form(form: Mapping[str, Any]) -> None:
    kind = form.get("kind")
    conform(kind, str, "form.kind")
    if kind not in _FORM:
        return  # from a newer version: `form_from_json` raises
    conform_fields(form, {"kind": str, **_FORM[kind]}, "form", ("notes", "raw", "standardize"))
    sizes = [form["image_size"]] if kind == "images" else form.get("shape", ())
    require(all(size > 0 for size in sizes), "the sizes of form must be positive")
    for position, part in enumerate(form.get("parts", ())):
        where = f"form.parts[{position}]"
        conform(part.get("kind"), str, f"{where}.kind")
        require(part["kind"] in PARTS, f"{where}.kind is unknown")
        conform_fields(part, {"kind": str, **get_type_hints(PARTS[part["kind"]])}, where)
