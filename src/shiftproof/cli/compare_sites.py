"""`shiftproof compare-sites`: compare a new site with the training domains."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from shiftproof.cli import options
from shiftproof.cli.preflight import check_model

EXAMPLE = "Example: [bold]shiftproof compare-sites runs/first new-patients.csv[/]"


def compare_sites(
    run: options.RunOrModel,
    data: Annotated[str, typer.Argument(help="Rows of one new site; no labels are needed.")],
    device: options.Device = "auto",
    as_json: options.AsJson = False,
) -> None:
    """Show which training domain a new site resembles, what is new there, and what to expect.

    The expected accuracy comes from the model's confidence there, corrected by how far confidence
    was off on held-out training domains.
    """
    check_model(run, data)
    from shiftproof import api
    from shiftproof.reporting.adaptation import comparison_lines

    found = api.compare_sites(run, data, device=device)
    if as_json:
        print(json.dumps(found.to_dict(), ensure_ascii=False))
        return
    for line in comparison_lines(found, api.load_model(run, device).classes):
        print(line)
