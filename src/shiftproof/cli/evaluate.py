"""`shiftproof evaluate`: score a trained model on labelled samples."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from shiftproof.cli import options
from shiftproof.cli.messages import in_options
from shiftproof.cli.options import parse_assignments
from shiftproof.cli.preflight import check_model

EXAMPLE = "Example: [bold]shiftproof evaluate runs/first new-hospital.csv --label ill[/]"


def evaluate(
    run: options.RunOrModel,
    data: Annotated[
        str,
        typer.Argument(
            help="Labelled samples: a table, a folder of images (DIR/domain/class/*.jpg), a"
            " manifest, arrays (.npz with x, y, domain) or a dataset name. Column names default to"
            " those of training."
        ),
    ],
    label: options.LabelColumn = None,
    domain: options.DomainColumn = None,
    image: options.ImageColumn = None,
    expected: options.ExpectedRuns = None,
    metric: options.EvaluateMetric = None,
    data_option: options.DataOption = None,
    data_seed: options.ModelDataSeed = None,
    workers: options.Workers = None,
    device: options.Device = "auto",
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Compare predictions with labels, domain by domain.

    With --expected, say whether each domain lies inside the range expected from held-out domains.
    """
    check_model(run, data)
    from rich.console import Console

    from shiftproof import api
    from shiftproof.cli.progress import LoadingBar
    from shiftproof.reporting.evaluation import evaluation_tables

    with LoadingBar(quiet=quiet or as_json) as progress:
        found = api.evaluate(
            run,
            data,
            label=label,
            domain=domain,
            image=image,
            expected=expected,
            metric=metric,
            options=parse_assignments("--data-option", data_option),
            data_seed=data_seed,
            workers=workers,
            device=device,
            progress=progress,
        )
    for note in found.notes:
        typer.echo(f"note: {in_options(note)}", err=True)
    if as_json:
        print(json.dumps(found.to_dict(), ensure_ascii=False))
        return
    for table in evaluation_tables(found.domains, found.model.standardized):
        Console().print(table)
    for comparison in found.compared or ():
        print(comparison.sentence)
