"""`shiftproof study`: diagnose data, train a model, estimate what to expect, write a page."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftproof.cli import options
from shiftproof.cli.messages import in_options
from shiftproof.cli.options import option, parse_assignments
from shiftproof.cli.preflight import check_data, check_settings
from shiftproof.cli.train import exit_unless_finished

if TYPE_CHECKING:
    from shiftproof.api.study import Study

EXAMPLE = "Example: [bold]shiftproof study patients.csv --label ill --domain hospital[/]"


def study(
    data: options.Data,
    label: options.LabelColumn = None,
    domain: options.DomainColumn = None,
    task: options.Task = "auto",
    by: options.By = None,
    pool_below: options.PoolBelow = 0,
    drop: options.DropColumns = None,
    categorical: options.CategoricalColumns = None,
    weights_column: options.WeightsColumn = None,
    image: options.ImageColumn = None,
    image_size: options.ImageSize = None,
    data_option: options.DataOption = None,
    workers: options.Workers = None,
    algorithm: options.AlgorithmName = None,
    backbone: options.Backbone = None,
    weights: options.Weights = None,
    freeze: options.Freeze = False,
    device: options.Device = "auto",
    hparam: options.Hparam = None,
    class_weight: options.ClassWeight = "none",
    steps: options.Steps = 5001,
    seed: options.Seed = 0,
    standardize: options.Standardize = "none",
    private: Annotated[
        bool,
        option(
            "Training",
            "Leave everything about single samples out of the page and the model file; trains no"
            " baselines.",
            "--private",
        ),
    ] = False,
    out: Annotated[
        Path | None, option("Output", "Folder of the study; default one in runs/.")
    ] = None,
    no_open: Annotated[
        bool, option("Output", "Do not open the page in a browser.", "--no-open")
    ] = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure shifts, estimate the score at a new domain, train a model, and write a page.

    Each domain is held out in turn; then a model is trained on all domains. Run the same command
    again to resume.
    """
    check_data(data, label, domain, image, drop, categorical, weights_column, by)
    check_settings(
        algorithm,
        standardize=standardize,
        class_weight=class_weight,
        task=task,
        steps=steps,
        device=device,
    )
    if not quiet:
        typer.echo(f"reading {data}", err=True)  # printed before the imports, which take seconds

    from shiftproof import api
    from shiftproof.cli.study_progress import StudyProgress

    settings: dict[str, Any] = {
        "hparams": parse_assignments("--hparam", hparam),
        "class_weight": class_weight,
        "steps": steps,
        "seed": seed,
        "out": out,
        "backbone": backbone,
        "weights": weights,
        "freeze": freeze,
        "standardize": standardize,
        "private": private,
        "device": device,
        "workers": workers,
        "label": label,
        "domain": domain,
        "task": task,
        "image": image,
        "drop": drop or (),
        "categorical": categorical or (),
        "by": by,
        "pool_below": pool_below,
        "weights_column": weights_column,
        "options": parse_assignments("--data-option", data_option),
        "image_size": image_size,
    }
    with StudyProgress(quiet=quiet) as settings["observer"]:
        found = api.study(data, algorithm, **settings)
    _show(found, data, show_page=not no_open)
    exit_unless_finished(found.runs, each=True)


def _show(found: Study, data: str, *, show_page: bool) -> None:
    """Print the diagnosis, the results, and the paths of the page and the model."""
    from rich.console import Console

    from shiftproof.reporting.forest import forest_table
    from shiftproof.reporting.terminal import leave_one_out_table

    if found.page is None or found.final is None:
        return
    console = Console()
    *lines, _ = found.diagnosis.to_text(console.width).splitlines()  # the last names an option
    print(in_options("\n".join(lines)))
    console.print(leave_one_out_table(found.held_out.runs[0].config, found.held_out.scores))
    console.print(forest_table(found.held_out.expected))
    print(found.answer)
    print(f"The page is {found.page}")
    print(f"The model, trained on all domains, is in {found.final.folder}; use it with")
    new = _new_data(Path(data).expanduser())
    print(f"  shiftproof predict {found.final.folder} {new}")
    if show_page and sys.stdout.isatty():
        webbrowser.open(found.page.resolve().as_uri())


def _new_data(data: Path) -> str:
    """Return a name for new data of the same kind.

    >>> _new_data(Path("patients.csv.gz")), _new_data(Path("vectors.parquet"))
    ('NEW.csv', 'NEW.parquet')
    """
    if data.is_dir():
        return "NEW-IMAGES"
    return f"NEW{Path(data.name.removesuffix('.gz')).suffix}"
