"""`shiftproof export`: write a trained model for other programs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import shiftproof
from shiftproof.api.settings import TrustSettings
from shiftproof.cli._options import RUN, command
from shiftproof.core.settings import path, setting, text


@dataclass(frozen=True, kw_only=True)
class ExportOptions(TrustSettings):
    """The options of `shiftproof export`."""

    to: str = setting(None, text, "Format: onnx or safetensors.", required=True)
    out: Path | None = setting(
        None, path, "File to write; default exported.onnx or .safetensors beside the model."
    )


@command(
    ExportOptions, RUN, example="[bold]shiftproof export runs/first --to onnx --out heart.onnx[/]"
)
def export(run: str, settings: ExportOptions) -> None:
    """Export a model to ONNX or safetensors.

    The preprocessing is part of the model, or is described in a JSON file beside it.
    """
    from rich.console import Console

    with Console(stderr=True).status(f"exporting to {settings.to}"):
        written = shiftproof.export(run, settings.to, settings.out, trust=settings.trust)
    beside = written.with_suffix(".json")
    print(f"the model is in {written}; {beside} describes its inputs and outputs")
