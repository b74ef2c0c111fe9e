"""`shiftproof export`: write a trained model for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shiftproof.cli import options

EXAMPLE = "Example: [bold]shiftproof export runs/first --to onnx --out heart.onnx[/]"


def export(
    run: options.RunOrModel,
    to: Annotated[str, typer.Option(help="Format: onnx or safetensors.")],
    out: Annotated[
        Path | None,
        typer.Option(help="File to write; default exported.onnx or .safetensors beside the model."),
    ] = None,
) -> None:
    """Export a model to ONNX or safetensors.

    The preprocessing is part of the model, or is described in a JSON file beside it.
    """
    from rich.console import Console

    from shiftproof import api

    with Console(stderr=True).status(f"exporting to {to}"):
        written = api.export(run, to, out)
    beside = written.with_suffix(".json")
    print(f"the model is in {written}; {beside} describes its inputs and outputs")
