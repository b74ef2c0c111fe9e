"""``shiftproof evaluate``: how good a trained model is on labelled samples."""

from __future__ import annotations

import json
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

EXAMPLE = "Example: [bold]shiftproof evaluate runs/first new-hospital.csv --label ill[/]"


def evaluate(
    run: TrainedRun,
    data: Annotated[
        str,
        typer.Argument(
            help="What the model takes, with labels: a table, a folder of images"
            " (DIR/domain/class/*.jpg), a manifest, arrays (.npz with x, y, domain), or a dataset"
            " by name."
        ),
    ],
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Of a table; as in training by default.")
    ] = None,
    domain: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Of a table; as in training by default, or all one."),
    ] = None,
    image: ImageColumn = None,
    data_option: NamedDataOption = None,
    data_seed: NamedDataSeed = None,
    device: Device = "auto",
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="The outcome for programs.")] = False,
) -> None:
    """Compare predictions with labels, domain by domain."""
    from rich.console import Console

    from shiftproof.cli.progress import LoadingBar
    from shiftproof.data.samples import SampleRequest
    from shiftproof.inference.metrics import domain_metrics
    from shiftproof.inference.model import TrainedModel
    from shiftproof.report.predictions import assessment_table

    model = TrainedModel.load(run, device)
    request = SampleRequest(
        data,
        label=label,
        domain=domain,
        image=image,
        usual=model.columns,
        options=parse_assignments("--data-option", data_option or []),
        labelled=True,
    )
    seed = model.config.data_seed if data_seed is None else data_seed
    with LoadingBar(quiet=quiet or as_json) as progress:
        parts = request.read(model.form, seed, progress)
        outcomes, notes = domain_metrics(model, parts, workers=workers, progress=progress)
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    if as_json:
        domains = [outcome.to_json() for outcome in outcomes]
        print(json.dumps({"classes": list(model.classes), "domains": domains}, ensure_ascii=False))
    else:
        Console().print(assessment_table(outcomes))
