"""`shiftproof diagnose`: measure the shifts between domains, and recommend what to train."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import shiftproof
from shiftproof.api.settings import DiagnoseSettings
from shiftproof.cli._options import DATA, AsJson, Quiet, command as command_of
from shiftproof.cli.messages import in_options, option_words
from shiftproof.cli.preflight import check_data, for_each_label
from shiftproof.cli.train import train
from shiftproof.core.settings import flag, path, setting
from shiftproof.data.settings import DataSettings

if TYPE_CHECKING:
    from shiftproof.shift.advise import Choice

EXAMPLE = (
    "[bold]shiftproof diagnose patients.csv --label ill --domain hospital --picture shift.png[/]"
)
RANDOM = "random"


@dataclass(frozen=True, kw_only=True)
class DiagnoseOptions(DiagnoseSettings, Quiet, AsJson):
    """The options of `shiftproof diagnose`."""

    picture: Path | None = setting(None, path, "Draw domains, features and classes.", metavar="PNG")
    out: Path | None = setting(
        None,
        path,
        "File to write. A file named diagnosis.json in a folder of runs becomes part of their page"
        " (see [bold]shiftproof report[/]).",
        metavar="JSON",
    )
    details: bool = setting(False, flag, "Print everything that was measured.")


@command_of(DiagnoseOptions, DATA, example=EXAMPLE)
@partial(for_each_label, folder=False)
def diagnose(data: str, settings: DiagnoseOptions) -> None:
    """Measure which shifts the data has and where they are, and recommend what to train."""
    check_data(data, settings)

    from shiftproof.cli.progress import LoadingBar
    from shiftproof.reporting.pictures import check_picture

    picture, out = settings.picture, settings.out
    if picture is not None:
        check_picture(picture)  # before anything is measured
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
    with LoadingBar(quiet=settings.quiet or settings.as_json) as progress:
        measured = shiftproof.diagnose(data, progress=progress, **settings.given(DiagnoseSettings))
    # In the order of the settings of data.
    given = DataSettings(**settings.given(DataSettings)).given()
    given |= _network(measured.frozen, settings)
    advice = measured.advice
    command, beside = (
        _train_command(data, given, choice, advice.test_domains or ["each"]) if choice else ""
        for choice in (advice.choice, advice.beside)
    )
    measured = replace(measured, about=replace(measured.about, command=command, beside=beside))
    if picture is not None:
        measured.picture(picture)
    if out is not None:
        measured.save(out)
    drawn = None if picture is None else str(picture)
    if settings.print_json({**measured.to_dict(), "picture": drawn}):
        return
    width = max(60, min(shutil.get_terminal_size((100, 24)).columns, 120))
    print(in_options(measured.to_text(width, details=settings.details)), end="")
    if picture is not None:
        print(f"Picture: {picture}")
    if out is not None:
        print(f"Saved to {out}")


def _network(frozen: Mapping[str, str], settings: DiagnoseSettings) -> dict[str, Any]:
    """Return the settings that make `train` use the measured features, if any."""
    if not frozen:
        return {}
    network = {"freeze": True, "backbone": settings.backbone or frozen["backbone"]}
    if settings.weights or frozen["weights"] == RANDOM:
        network["weights"] = settings.weights or RANDOM
    return network | ({"precision": "bf16"} if frozen["precision"] == "bf16" else {})


def _train_command(
    data: str, given: Mapping[str, Any], choice: Choice, held_out: Sequence[str]
) -> str:
    """Return the command that trains the recommended algorithm on data with the given settings.

    >>> from shiftproof.shift.advise import Choice
    >>> _train_command("my data.csv", {}, Choice("idm", "why", {"order": "1"}), ["each"])
    "shiftproof train 'my data.csv' --algorithm idm --hparam order=1 --test-domain each"
    """
    trained = {"algorithm": choice.algorithm, "hparams": choice.hparams, "test_domains": held_out}
    return shlex.join(["shiftproof", "train", data, *option_words(train, {**given, **trained})])
