"""`shiftproof train`: train one model, or one for each held-out domain."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftproof.cli import options
from shiftproof.cli.options import option, parse_assignments
from shiftproof.cli.preflight import check_data, check_settings
from shiftproof.core.errors import InvalidValue
from shiftproof.core.text import counted

if TYPE_CHECKING:
    from shiftproof.api.trained_run import TrainedRun

# The value of --test-domain that holds out every domain in turn.
EACH = "each"
EXAMPLE = (
    "Example: [bold]shiftproof train colored-mnist-irm --algorithm idm --test-domain 10%"
    " --hparam batch_size=512 --hparam gradient_warmup=300 --steps 1000 --out runs/first[/]"
)


def train(
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
    data_seed: options.DataSeed = None,
    workers: options.Workers = None,
    threads: Annotated[
        int | None,
        option(
            "Training",
            "Threads for computation; default one for rows, and one per core for images.",
        ),
    ] = None,
    algorithm: options.AlgorithmName = None,
    backbone: options.Backbone = None,
    weights: options.Weights = None,
    freeze: options.Freeze = False,
    pool: options.Pool = "all",
    device: options.Device = "auto",
    precision: options.Precision = "fp32",
    compile: Annotated[
        bool,
        option(
            "Model", "Compile the network with torch.compile; needs a C++ compiler.", "--compile"
        ),
    ] = False,
    test_domain: Annotated[
        list[str] | None,
        option(
            "Training",
            "Domain to hold out; repeatable. [bold]each[/] trains one run per domain; without this"
            " option, all domains are trained on.",
        ),
    ] = None,
    hparam: options.Hparam = None,
    metric: options.TrainMetric = None,
    at_least: options.AtLeast = None,
    loss: options.Loss = None,
    class_weight: options.ClassWeight = "none",
    steps: options.Steps = 5001,
    seed: options.Seed = 0,
    holdout: options.Holdout = None,
    eval_every: Annotated[
        int | None,
        option("Training", "Steps between evaluations; 0 evaluates after the last step only."),
    ] = None,
    evaluate: options.Evaluate = "train-out,test-in,test-out,extra",
    average: options.Average = "none",
    augment_validation: options.AugmentValidation = False,
    standardize: options.Standardize = "none",
    private: Annotated[
        bool,
        option(
            "Training",
            "Leave everything about single samples, and everything that prediction does not need,"
            " out of the model file.",
            "--private",
        ),
    ] = False,
    checkpoint_seconds: Annotated[
        float, option("Training", "Shortest time between checkpoints.")
    ] = 5.0,
    out: Annotated[
        Path | None, option("Output", "Folder of the run; default one in runs/, named after it.")
    ] = None,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Train a model; run the same command again to resume."""
    check_data(data, label, domain, image, drop, categorical, weights_column, by)
    check_settings(
        algorithm,
        standardize=standardize,
        class_weight=class_weight,
        task=task,
        metric=metric,
        steps=steps,
        device=device,
    )

    from rich.console import Console

    from shiftproof import api
    from shiftproof.cli.progress import ProgressBar
    from shiftproof.inference.expected import DEFAULT_METRIC, Expected, sentences
    from shiftproof.reporting.forest import forest_table
    from shiftproof.reporting.terminal import (
        accuracy_table,
        leave_one_out_table,
        members_table,
        scored_weights,
    )

    held_out = test_domain or []
    each = EACH in held_out
    if each and held_out != [EACH]:
        raise InvalidValue(
            f"--test-domain {EACH} holds out every domain in turn; give it without other domains"
        )
    if at_least is not None:
        if not each:
            raise InvalidValue(f"--at-least needs --test-domain {EACH}")
        # Check the threshold before training.
        Expected({}, metric or DEFAULT_METRIC, at_least=at_least)
    settings: dict[str, Any] = {
        "hparams": parse_assignments("--hparam", hparam),
        "metric": metric,
        "loss": loss,
        "class_weight": class_weight,
        "steps": steps,
        "seed": seed,
        "data_seed": data_seed,
        "out": out,
        "backbone": backbone,
        "weights": weights,
        "freeze": freeze,
        "pool": pool,
        "holdout": holdout,
        "eval_every": eval_every,
        "evaluate": [name.strip() for name in evaluate.split(",")],
        "device": device,
        "precision": precision,
        "average": average,
        "augment_validation": augment_validation,
        "private": private,
        "standardize": standardize,
        "workers": workers,
        "threads": threads,
        "checkpoint_seconds": checkpoint_seconds,
        "compile": compile,
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
    with ProgressBar(quiet=quiet) as settings["observer"]:
        if each:
            table = api.train_each(data, algorithm, **settings)
            runs, outcome = table.runs, table.to_dict(at_least)
        else:
            run = api.train(data, algorithm, test_domains=held_out, **settings)
            runs, outcome = (run,), run.to_dict()
    if as_json:
        print(json.dumps(outcome, ensure_ascii=False))
    elif any(run.status != "finished" for run in runs):
        pass  # `exit_unless_finished` prints the status
    elif each:
        Console().print(leave_one_out_table(runs[0].config, table.scores))
        expected = replace(table.expected, at_least=at_least)
        Console().print(forest_table(expected))
        print(*sentences(expected), sep="\n")
        print(f"{len(runs)} runs; they are in {runs[0].folder.parent}")
    else:
        if run.metrics["risk"]:
            Console().print(accuracy_table(run.config, run.metrics))
        else:
            print(
                f"{run.config.title} on {run.config.dataset}: nothing was held out, so there is no"
                " score; --test-domain each estimates the score at a new domain"
            )
        if scored := scored_weights(run.metrics):
            print(f"scored: {scored}")
        print(f"{counted(run.step, 'step')} in {run.seconds:.1f} s; the run is in {run.folder}")
    if not as_json and (members := members_table(runs)) is not None:
        Console().print(members)
    exit_unless_finished(runs, each=each)


def exit_unless_finished(runs: tuple[TrainedRun, ...], *, each: bool) -> None:
    """Print what went wrong and exit with a nonzero code, unless all runs finished."""
    if runs[-1].status == "stopped":
        typer.echo(
            f"Interrupted after step {runs[-1].step}. Run the same command again to resume.",
            err=True,
        )
        raise typer.Exit(130)
    diverged = [run for run in runs if run.status == "diverged"]
    for run in diverged:
        where = f" without {run.config.test_domains[0]}" if each else ""
        typer.echo(
            f"diverged{where}: the loss of step {run.step} is not finite; try a smaller lr",
            err=True,
        )
    if diverged:
        raise typer.Exit(1)
