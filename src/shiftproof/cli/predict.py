"""``shiftproof predict``: what a trained model says of samples without labels."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from shiftproof.cli.options import (
    Device,
    ImageColumn,
    NamedDataOption,
    NamedDataSeed,
    Quiet,
    TrainedRun,
    Workers,
    parse_assignments,
)
from shiftproof.core.errors import InvalidValue

EXAMPLE = (
    "Example: [bold]shiftproof predict runs/first new-patients.csv --keep patient"
    " --out predictions.csv[/]"
)
SUFFIXES = (".csv", ".parquet")


def predict(
    run: TrainedRun,
    data: Annotated[
        str,
        typer.Argument(
            help="What the model takes: a table, a folder of images (of any depth), one image, a"
            " manifest, an array (.npy), or a dataset by name. No labels are needed."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="File to write, .csv or .parquet; by default CSV on standard output."),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Of a table: to be copied; repeatable."),
    ] = None,
    domain: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Of a table: which domain a row is from.")
    ] = None,
    image: ImageColumn = None,
    data_option: NamedDataOption = None,
    data_seed: NamedDataSeed = None,
    device: Device = "auto",
    workers: Workers = None,
    quiet: Quiet = False,
) -> None:
    """Predict classes with probabilities, and warn of inputs unlike anything trained on.

    One row a sample: its row or path, the predicted class, the probability of each class, its
    typicality (the share of held-out training samples at least as far off) and whether it is far
    from every training domain, where a prediction is a guess.
    """
    if out is not None and out.suffix not in SUFFIXES:
        raise InvalidValue(f"--out must end in {' or '.join(SUFFIXES)}, not {out.name!r}")
    from shiftproof.cli.progress import LoadingBar
    from shiftproof.core.files import write_atomically
    from shiftproof.data.samples import SampleRequest
    from shiftproof.inference.model import TrainedModel
    from shiftproof.report.predictions import frame_bytes, predictions_frame, predictions_summary

    model = TrainedModel.load(run, device)
    request = SampleRequest(
        data,
        domain=domain,
        image=image,
        keep=tuple(keep or ()),
        usual=model.columns,
        options=parse_assignments("--data-option", data_option or []),
    )
    seed = model.config.data_seed if data_seed is None else data_seed
    with LoadingBar(quiet=quiet) as progress:
        parts = request.read(model.form, seed, progress)
        done = [
            (part, model.predict(part.inputs, workers=workers, progress=progress)) for part in parts
        ]
    for note in (note for part in parts for note in part.notes):
        typer.echo(f"note: {note}", err=True)
    frame = predictions_frame(done, model.classes)
    if out is None:
        sys.stdout.write(frame_bytes(frame, ".csv").decode())
    else:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out, frame_bytes(frame, out.suffix))
    typer.echo(predictions_summary(frame) + (f"; they are in {out}" if out else ""), err=True)
