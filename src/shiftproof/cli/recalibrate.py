"""`shiftproof recalibrate`: update a model with a few labelled rows of a new site."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import shiftproof
from shiftproof.api.settings import RecalibrateSettings
from shiftproof.cli._options import RUN, Argument, AsJson, command
from shiftproof.cli.preflight import check_model
from shiftproof.core.settings import path, setting


@dataclass(frozen=True, kw_only=True)
class RecalibrateOptions(RecalibrateSettings, AsJson):
    """The options of `shiftproof recalibrate`."""

    out: Path | None = setting(None, path, "Folder to write the updated model to; default none.")


@command(
    RecalibrateOptions,
    RUN,
    Argument("data", "Labelled rows of one new site, at least 20."),
    example="[bold]shiftproof recalibrate runs/first new-labelled.csv --out runs/new-site[/]",
)
def recalibrate(run: str, data: str, settings: RecalibrateOptions) -> None:
    """Update the intercept, slope or effects of a model with a few labelled rows of a new site.

    A closed testing procedure decides which of them to update. The updated model is adapted to this
    site: its scores say nothing about other sites.
    """
    check_model(run, data)
    from shiftproof.reporting.adaptation import recalibration_lines

    recalibration = shiftproof.recalibrate(run, data, **settings.given(RecalibrateSettings))
    written = None if settings.out is None else recalibration.model.save(settings.out)
    if settings.print_json(recalibration.result.to_dict()):
        return
    for line in recalibration_lines(recalibration.result):
        print(line)
    if written is not None:
        print(f"the updated model is in {written}")
