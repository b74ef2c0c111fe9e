"""`shiftproof compare-sites`: compare a new site with the training domains."""

from __future__ import annotations

from dataclasses import dataclass

import shiftproof
from shiftproof.api.settings import LoadModelSettings
from shiftproof.cli._options import RUN, Argument, AsJson, command
from shiftproof.cli.preflight import check_model


@dataclass(frozen=True, kw_only=True)
class CompareOptions(LoadModelSettings, AsJson):
    """The options of `shiftproof compare-sites`."""


@command(
    CompareOptions,
    RUN,
    Argument("data", "Rows of one new site; no labels are needed."),
    example="[bold]shiftproof compare-sites runs/first new-patients.csv[/]",
    name="compare-sites",
)
def compare_sites(run: str, data: str, settings: CompareOptions) -> None:
    """Show which training domain a new site resembles, what is new there, and what to expect.

    The expected accuracy comes from the model's confidence there, corrected by how far confidence
    was off on held-out training domains.
    """
    check_model(run, data)
    from shiftproof.reporting.adaptation import comparison_lines

    model = shiftproof.load_model(run, **settings.given(LoadModelSettings))
    comparison = shiftproof.compare_sites(model, data)
    if settings.print_json(comparison.to_dict()):
        return
    for line in comparison_lines(comparison, model.classes):
        print(line)
