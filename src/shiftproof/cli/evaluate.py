"""`shiftproof evaluate`: score a trained model on labelled samples."""

from __future__ import annotations

from dataclasses import dataclass

import click

import shiftproof
from shiftproof.api.settings import EvaluateSettings
from shiftproof.cli._options import RUN, Argument, AsJson, Quiet, command
from shiftproof.cli.messages import in_options
from shiftproof.cli.preflight import check_model

SAMPLES = Argument(
    "data",
    "Labelled samples: a table, a folder of images (DIR/domain/class/*.jpg), a manifest, arrays"
    " (.npz with x, y, domain) or a dataset name. Column names default to those of training.",
)


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(EvaluateSettings, Quiet, AsJson):
    """The options of `shiftproof evaluate`."""


@command(
    EvaluateOptions,
    RUN,
    SAMPLES,
    example="[bold]shiftproof evaluate runs/first new-hospital.csv --label ill[/]",
)
def evaluate(run: str, data: str, settings: EvaluateOptions) -> None:
    """Compare predictions with labels, domain by domain.

    With --expected, say whether each domain lies inside the range expected from held-out domains.
    """
    check_model(run, data)
    from rich.console import Console

    from shiftproof.cli.progress import LoadingBar
    from shiftproof.reporting.terminal import evaluation_tables

    with LoadingBar(quiet=settings.quiet or settings.as_json) as progress:
        evaluation = shiftproof.evaluate(
            run, data, progress=progress, **settings.given(EvaluateSettings)
        )
    for note in evaluation.notes:
        click.echo(f"note: {in_options(note)}", err=True)
    if settings.print_json(evaluation.to_dict()):
        return
    for table in evaluation_tables(evaluation.domains, evaluation.model.standardized):
        Console().print(table)
    for comparison in evaluation.compared or ():
        print(comparison.sentence)
