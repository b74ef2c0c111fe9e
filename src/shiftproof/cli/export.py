"""`shiftproof export`: a trained model for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shiftproof.cli import options
from shiftproof.core.errors import InvalidValue, UnknownName

EXAMPLE = "Example: [bold]shiftproof export runs/first --to onnx --out heart.onnx[/]"


def export(
    run: options.RunOrModel,
    to: Annotated[str, typer.Option(help="Format: onnx, torchscript or safetensors.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write; default exported.onnx, .pt or .safetensors beside the model."
        ),
    ] = None,
) -> None:
    """Write a model for other programs, with its preprocessing or a description of it."""
    from rich.console import Console

    from shiftproof import api
    from shiftproof.core.files import write_atomically, write_json
    from shiftproof.inference.export import FORMATS, description

    if to not in FORMATS:
        raise UnknownName("format", to, FORMATS)
    make, suffix = FORMATS[to]
    if out is not None and out.suffix != suffix:
        raise InvalidValue(f"--out must end in {suffix}, not {out.name!r}")
    model = api.load_model(run, "cpu")
    out = out or (run if run.is_dir() else run.parent) / f"exported{suffix}"
    beside = out.with_suffix(".json")
    out.parent.mkdir(parents=True, exist_ok=True)
    with Console(stderr=True).status(f"exporting to {to}"):
        write_atomically(out, make(model))
    write_json(beside, description(model))
    print(f"the model is in {out}; {beside} describes its inputs and outputs")
