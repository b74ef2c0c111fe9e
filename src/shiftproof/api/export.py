"""`export`: write a trained model for other programs."""

from __future__ import annotations

import os
from pathlib import Path

from shiftproof.api.load_model import as_model
from shiftproof.core.errors import InvalidValue, UnknownName
from shiftproof.core.files import write_atomically, write_json
from shiftproof.inference.export import FORMATS, description
from shiftproof.inference.model import TrainedModel


def export(
    model: TrainedModel | str | os.PathLike[str],
    to: str,
    out: str | os.PathLike[str] | None = None,
    *,
    trust: bool = False,
) -> Path:
    """Write a model in a format for other programs, and return the path of the file.

    A JSON file next to it describes the inputs and outputs.

    Args:
        model: a trained model, or the path of its run or file.
        to: `onnx` or `safetensors`.
        out: the file to write; by default exported.onnx or .safetensors next to the model.
        trust: as for `load_model`.
    """
    if to == "torchscript":
        raise InvalidValue("export to TorchScript was removed; export to onnx instead")
    if to not in FORMATS:
        raise UnknownName("format", to, FORMATS)
    make, suffix = FORMATS[to]
    if out is not None and Path(out).suffix != suffix:
        raise InvalidValue(f"`out` must end in {suffix}, not {Path(out).name!r}")
    if out is None:
        if isinstance(model, TrainedModel):
            raise InvalidValue("`out` must name a file, since the model has no folder")
        beside = Path(model).expanduser()
        out = (beside if beside.is_dir() else beside.parent) / f"exported{suffix}"
    path = Path(out).expanduser()
    trained = as_model(model, "cpu", trust=trust)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, make(trained))
    write_json(path.with_suffix(".json"), description(trained))
    return path
