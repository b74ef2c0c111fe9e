"""`shiftproof expect`: predict the score of a model at a new domain."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import shiftproof
from shiftproof.api.settings import ExpectSettings, RangeSettings, TrainEachSettings
from shiftproof.cli._options import Argument, AsJson, Quiet, command
from shiftproof.cli.preflight import check_data, for_each_label
from shiftproof.cli.train import exit_unless_finished

EXAMPLE = (
    "[bold]shiftproof expect patients.csv --label ill --domain hospital --metric auroc"
    " --at-least 0.7[/]"
)
RUNS_OR_DATA = Argument(
    "data",
    "Folder of images (DIR/domain/class/*.jpg), table (CSV or Parquet) or dataset name; or the"
    " folder with the runs of [bold]train --test-domain each[/].",
)


@dataclass(frozen=True, kw_only=True)
class ExpectOptions(ExpectSettings, Quiet, AsJson):
    """The options of `shiftproof expect`."""


@command(ExpectOptions, RUNS_OR_DATA, example=EXAMPLE)
@for_each_label
def expect(data: str, settings: ExpectOptions) -> None:
    """Estimate the score at a new domain by holding out each domain in turn.

    The interval for the next domain comes from a random-effects meta-analysis of the held-out
    domains. Run the same command again to resume.
    """
    if Path(data).expanduser().is_file():
        check_data(data, settings)
    from rich.console import Console

    from shiftproof.api.held_out import held_out_in_folder
    from shiftproof.cli.progress import ProgressBar
    from shiftproof.inference.expected import check_asked, sentences
    from shiftproof.reporting.terminal import forest_table

    source: Any = data
    asked = settings.given(ExpectSettings)
    if held_out_in_folder(data) is None:
        check_asked(settings.metric, settings.level, settings.at_least)  # before training
        with ProgressBar(quiet=settings.quiet) as observer:
            training = settings.given(TrainEachSettings)
            source = shiftproof.train_each(data, observer=observer, **training)
        exit_unless_finished(source.runs, each=True)
        asked = settings.given(RangeSettings)
    expected = shiftproof.expect(source, **asked)
    if settings.print_json(expected.to_dict()):
        return
    Console().print(forest_table(expected))
    print(*sentences(expected), sep="\n")
