"""`shiftproof predict`: predict unlabelled samples."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from shiftproof.cli import options
from shiftproof.cli.messages import in_options
from shiftproof.cli.options import option, parse_assignments
from shiftproof.cli.preflight import check_model

EXAMPLE = (
    "Example: [bold]shiftproof predict runs/first new-patients.csv --keep patient"
    " --out predictions.csv[/]"
)


def predict(
    run: options.RunOrModel,
    data: Annotated[
        str,
        typer.Argument(
            help="Samples to predict: a table, a folder of images (of any depth), one image, a"
            " manifest, an array (.npy) or a dataset name. No labels are needed."
        ),
    ],
    keep: Annotated[
        list[str] | None,
        option("Data", "Column to copy to the output (tables); repeatable.", metavar="COLUMN"),
    ] = None,
    sets: Annotated[
        float | None,
        option(
            "Expectation",
            "Add prediction sets: the classes that include the true one with this probability at a"
            " new domain, such as 0.9; needs --expected.",
        ),
    ] = None,
    interval: Annotated[
        float | None,
        option(
            "Expectation",
            "Add intervals that contain the true number with this probability at a new domain, such"
            " as 0.9; computed from the runs of --expected, or from domains held out during"
            " training (best, linear, boosting, forest).",
        ),
    ] = None,
    expected: options.ExpectedRuns = None,
    adapt: Annotated[
        str,
        option(
            "Adaptation",
            "Correct the probabilities for the class proportions of the new site, estimated from"
            " its rows: [bold]auto[/] (as far as they differ from training by more than the error"
            " of the estimate) or [bold]none[/]. With a domain column, each domain is a site.",
        ),
    ] = "none",
    domain: options.DomainColumn = None,
    image: options.ImageColumn = None,
    data_option: options.DataOption = None,
    data_seed: options.ModelDataSeed = None,
    workers: options.Workers = None,
    device: options.Device = "auto",
    out: Annotated[
        Path | None,
        option("Output", "File to write, .csv or .parquet; default CSV on standard output."),
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Predict classes with probabilities, or numbers, and mark inputs unlike the training data.

    Writes one row per sample: its row number or path; the predicted class and the probability of
    each class, or the predicted number; its typicality (the share of held-out training samples
    that are at least as unusual); and whether it is far from every training domain, where
    predictions are unreliable.
    """
    check_model(run, data)
    from shiftproof import api
    from shiftproof.api.predict import check_asked, checked_out
    from shiftproof.cli.progress import LoadingBar
    from shiftproof.reporting.adaptation import adaptation_lines

    if out is not None:
        checked_out(out, data)
    check_asked(sets, interval, expected, adapt)
    with LoadingBar(quiet=quiet) as progress:
        found = api.predict(
            run,
            data,
            keep=keep or (),
            sets=sets,
            interval=interval,
            expected=expected,
            adapt=adapt,
            domain=domain,
            image=image,
            options=parse_assignments("--data-option", data_option),
            data_seed=data_seed,
            workers=workers,
            device=device,
            progress=progress,
        )
    for note in found.notes:
        typer.echo(f"note: {in_options(note)}", err=True)
    if out is None:
        sys.stdout.write(found.to_bytes().decode())
    else:
        found.save(out)
    if said := found.model.standardized:
        typer.echo(f"adaptation: rows are {said}, using the rows given here", err=True)
    for line in adaptation_lines(found.adapted, found.model.classes):
        typer.echo(line, err=True)
    typer.echo(found.summary + (f"; they are in {out}" if out else ""), err=True)
