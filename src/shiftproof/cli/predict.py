"""`shiftproof predict`: predict unlabelled samples."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import click

import shiftproof
from shiftproof.api.settings import PredictSettings
from shiftproof.cli._options import RUN, Argument, Quiet, command
from shiftproof.cli.messages import in_options
from shiftproof.cli.preflight import check_model
from shiftproof.core.settings import path, setting

EXAMPLE = (
    "[bold]shiftproof predict runs/first new-patients.csv --keep patient --out predictions.csv[/]"
)
SAMPLES = Argument(
    "data",
    "Samples to predict: a table, a folder of images (of any depth), one image, a manifest, an"
    " array (.npy) or a dataset name. No labels are needed.",
)


@dataclass(frozen=True, kw_only=True)
class PredictOptions(PredictSettings, Quiet):
    """The options of `shiftproof predict`."""

    out: Path | None = setting(
        None, path, "File to write, .csv or .parquet; default CSV on standard output."
    )


@command(PredictOptions, RUN, SAMPLES, example=EXAMPLE)
def predict(run: str, data: str, settings: PredictOptions) -> None:
    """Predict classes with probabilities, or numbers, and mark inputs unlike the training data.

    Writes one row per sample: its row number or path; the predicted class and the probability of
    each class, or the predicted number; its typicality (the share of held-out training samples
    that are at least as unusual); and whether it is far from every training domain, where
    predictions are unreliable.
    """
    check_model(run, data)
    from shiftproof.api.predict import check_asked, checked_out
    from shiftproof.cli.progress import LoadingBar
    from shiftproof.reporting.adaptation import adaptation_lines

    out = settings.out
    if out is not None:
        checked_out(out, data)
    check_asked(settings)
    with LoadingBar(quiet=settings.quiet) as progress:
        predicted = shiftproof.predict(
            run, data, progress=progress, **settings.given(PredictSettings)
        )
    for note in predicted.notes:
        click.echo(f"note: {in_options(note)}", err=True)
    if out is None:
        sys.stdout.write(predicted.to_bytes().decode())
    else:
        predicted.save(out)
    if adaptation := predicted.model.standardized:
        click.echo(f"adaptation: rows are {adaptation}, using the rows given here", err=True)
    for line in adaptation_lines(predicted.adapted, predicted.model.classes):
        click.echo(line, err=True)
    click.echo(predicted.summary + (f"; they are in {out}" if out else ""), err=True)
