"""`shiftproof expect`: predict the score of a model at a new domain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from shiftproof.cli import options
from shiftproof.cli.options import option, parse_assignments
from shiftproof.cli.preflight import check_data, check_settings
from shiftproof.cli.train import exit_unless_finished

EXAMPLE = (
    "Example: [bold]shiftproof expect patients.csv --label ill --domain hospital --metric auroc"
    " --at-least 0.7[/]"
)


def expect(
    data: Annotated[
        str,
        typer.Argument(
            help="Folder of images (DIR/domain/class/*.jpg), table (CSV or Parquet) or dataset"
            " name; or the folder with the runs of [bold]train --test-domain each[/]."
        ),
    ],
    algorithm: options.AlgorithmName = None,
    metric: options.ExpectMetric = None,
    at_least: options.AtLeast = None,
    level: Annotated[float, option("Expectation", "Probability of the intervals.")] = 0.95,
    hparam: options.Hparam = None,
    steps: options.Steps = 5001,
    seed: options.Seed = 0,
    loss: options.Loss = None,
    holdout: options.Holdout = None,
    label: options.LabelColumn = None,
    domain: options.DomainColumn = None,
    task: options.Task = "auto",
    image: options.ImageColumn = None,
    drop: options.DropColumns = None,
    categorical: options.CategoricalColumns = None,
    image_size: options.ImageSize = None,
    data_option: options.DataOption = None,
    data_seed: options.DataSeed = None,
    workers: options.Workers = None,
    backbone: options.Backbone = None,
    weights: options.Weights = None,
    freeze: options.Freeze = False,
    standardize: options.Standardize = "none",
    device: options.Device = "auto",
    out: Annotated[
        Path | None, option("Output", "Folder of the runs; default one each in runs/.")
    ] = None,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Estimate the score at a new domain by holding out each domain in turn.

    The interval for the next domain comes from a random-effects meta-analysis of the held-out
    domains. Run the same command again to resume.
    """
    if Path(data).expanduser().is_file():
        check_data(data, label, domain, image, drop, categorical)
    check_settings(
        algorithm,
        standardize=standardize,
        task=task,
        metric=metric,
        steps=steps,
        device=device,
    )
    from rich.console import Console

    from shiftproof import api
    from shiftproof.api.held_out_answers import answers_in
    from shiftproof.cli.progress import ProgressBar
    from shiftproof.inference.expected import DEFAULT_METRIC, Expected, sentences
    from shiftproof.reporting.forest import forest_table

    given: dict[str, Any] = {
        "hparams": parse_assignments("--hparam", hparam),
        "steps": steps,
        "seed": seed,
        "loss": loss,
        "holdout": holdout,
        "label": label,
        "domain": domain,
        "task": task,
        "image": image,
        "drop": drop,
        "categorical": categorical,
        "image_size": image_size,
        "options": parse_assignments("--data-option", data_option),
        "data_seed": data_seed,
        "workers": workers,
        "backbone": backbone,
        "weights": weights,
        "freeze": freeze,
        "standardize": standardize,
        "device": device,
        "out": out,
    }
    default = {
        "steps": 5001,
        "seed": 0,
        "device": "auto",
        "freeze": False,
        "standardize": "none",
        "task": "auto",
    }
    training = {
        name: value
        for name, value in given.items()
        if value not in (None, {}) and value != default.get(name)
    }
    asked: dict[str, Any] = {"metric": metric, "at_least": at_least, "level": level}
    each: Any = data
    if answers_in(data) is None:
        # Check the settings before training.
        Expected({}, metric or DEFAULT_METRIC, level, at_least)
        with ProgressBar(quiet=quiet) as observer:
            each = api.train_each(data, algorithm, metric=metric, observer=observer, **training)
        exit_unless_finished(each.runs, each=True)
        algorithm, training = None, {}
    found = api.expect(each, algorithm, **asked, **training)
    if as_json:
        print(json.dumps(found.to_dict(), ensure_ascii=False))
        return
    Console().print(forest_table(found))
    print(*sentences(found), sep="\n")
