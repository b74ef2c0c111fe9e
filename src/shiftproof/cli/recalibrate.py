"""`shiftproof recalibrate`: update a model with a few labelled rows of a new site."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from shiftproof.cli import options
from shiftproof.cli.options import option
from shiftproof.cli.preflight import check_model

EXAMPLE = "Example: [bold]shiftproof recalibrate runs/first new-labelled.csv --out runs/new-site[/]"


def recalibrate(
    run: options.RunOrModel,
    data: Annotated[str, typer.Argument(help="Labelled rows of one new site, at least 20.")],
    label: options.LabelColumn = None,
    device: options.Device = "auto",
    out: Annotated[
        Path | None, option("Output", "Folder to write the updated model to; default none.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Update the intercept, slope or effects of a model with a few labelled rows of a new site.

    A closed testing procedure decides which of them to update. The updated model is adapted to this
    site: its scores say nothing about other sites.
    """
    check_model(run, data)
    from shiftproof import api
    from shiftproof.reporting.adaptation import recalibration_lines

    found = api.recalibrate(run, data, label=label, device=device)
    written = None if out is None else found.model.save(out)
    if as_json:
        print(json.dumps(found.result.to_dict(), ensure_ascii=False))
        return
    for line in recalibration_lines(found.result):
        print(line)
    if written is not None:
        print(f"the updated model is in {written}")
