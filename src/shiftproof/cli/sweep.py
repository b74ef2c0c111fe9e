"""``shiftproof sweep``: compare many runs under one protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shiftproof.cli import options
from shiftproof.cli.options import parse_assignments, split
from shiftproof.cli.preflight import check_settings
from shiftproof.core.errors import InvalidValue

EXAMPLE = (
    "Example: [bold]shiftproof sweep colored-mnist rotated-mnist --algorithms erm,coral,idm"
    " --preset lite --n-hparams 3 --trials 1 --out sweeps/first[/]"
)
# Exit codes of a sweep that has not finished.
CODES = {"stopped": 130, "failed": 1}


def sweep(
    data: Annotated[
        list[str] | None,
        typer.Argument(help="Dataset names, folders of images, or tables."),
    ] = None,
    algorithms: Annotated[
        str,
        typer.Option(
            help="Algorithms, separated by commas, or [bold]all[/] (except two-stage, which is for"
            " full batches)."
        ),
    ] = "erm,idm",
    preset: Annotated[
        str,
        typer.Option(
            help="Size of the runs: domainbed (as published), lite (reduced size) or table1 (500"
            " full batches, as in IRM's study of Colored MNIST; two classes)."
        ),
    ] = "domainbed",
    n_hparams: Annotated[
        int, typer.Option(help="Number of hyper-parameter draws; the first has the defaults.")
    ] = 20,
    draws: Annotated[
        str | None,
        typer.Option(
            help="Run only these of the --n-hparams draws, by their seeds (0 is the defaults):"
            " 0,4,10. A later command can add others."
        ),
    ] = None,
    trials: Annotated[
        int, typer.Option(help="Number of repetitions, each with another data seed.")
    ] = 3,
    selection: Annotated[
        str,
        typer.Option(
            help="training-domain, leave-one-domain-out, oracle, invariance, best-minimum;"
            " separated by commas."
        ),
    ] = "training-domain,oracle",
    out: Annotated[Path, typer.Option(help="Folder of the sweep.")] = Path("sweep"),
    hparam: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=VALUE, fixed in every run; repeatable. Tables then show"
            " algorithm\\[NAME=VALUE]."
        ),
    ] = None,
    test_domain: options.TestDomains = None,
    steps: Annotated[
        int | None, typer.Option(help="Number of updates; default the preset's.")
    ] = None,
    eval_every: Annotated[
        int | None, typer.Option(help="Steps between evaluations; default the preset's.")
    ] = None,
    label: options.LabelColumn = None,
    domain: options.DomainColumn = None,
    weights_column: options.WeightsColumn = None,
    class_weight: options.ClassWeight = "none",
    backbone: Annotated[
        str | None,
        typer.Option(help="Network that computes the features of images (lite)."),
    ] = None,
    weights: options.FrozenWeights = "pretrained",
    data_option: options.DataOption = None,
    executor: options.Executor = "local",
    ray_address: options.RayAddress = None,
    workers: options.RunsAtOnce = None,
    stall_seconds: options.StallSeconds = None,
    models: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="After the runs, write the selected models to this folder."
        ),
    ] = None,
    retrain: Annotated[
        bool,
        typer.Option(
            "--retrain",
            help="After the runs, retrain the selected settings on all samples of the training"
            " domains, in OUT/retrained.",
        ),
    ] = False,
    average: Annotated[
        str,
        typer.Option(
            help="Final weights of each run: the last (none), averaged (ema, swad) or best."
        ),
    ] = "none",
    device: options.Device = "auto",
    precision: options.Precision = "fp32",
    retry_failed: options.RetryFailed = False,
    dry_run: options.DryRun = False,
    status: Annotated[
        Path | None, options.option("Runs", "Print the status of a sweep and stop.", metavar="DIR")
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Run the DomainBed protocol; run the same command again to resume."""
    if status is not None:
        _show_status(status)
        return
    if not data:
        raise InvalidValue("name at least one dataset, or give --status DIR")
    names = algorithms if algorithms == "all" else split(algorithms) or ()
    if names != "all":
        check_settings(*names)
    check_settings(class_weight=class_weight, steps=1 if steps is None else steps, device=device)
    from shiftproof.api.sweep import sweep as run
    from shiftproof.cli.sweep_progress import SweepProgress

    with SweepProgress(quiet=quiet, dry_run=dry_run) as progress:
        done = run(
            data,
            names,
            preset=preset,
            n_hparams=n_hparams,
            draws=_seeds(draws),
            trials=trials,
            selection=split(selection) or (),
            out=out,
            hparams=parse_assignments("--hparam", hparam or []),
            test_domains=test_domain or (),
            steps=steps,
            eval_every=eval_every,
            label=label,
            domain=domain,
            weights_column=weights_column,
            class_weight=class_weight,
            backbone=backbone,
            weights=weights,
            options=parse_assignments("--data-option", data_option or []),
            executor=executor,
            ray_address=ray_address,
            workers=workers,
            stall_seconds=stall_seconds,
            models=models,
            retrain=retrain,
            average=average,
            device=device,
            precision=precision,
            retry_failed=retry_failed,
            dry_run=dry_run,
            observer=progress,
        )
    if done.status in CODES:
        raise typer.Exit(CODES[done.status])
    if not dry_run:
        print(f"shiftproof report {out} prints the tables")
    if done.models is not None:
        print(f"{done.models} lists the selected models")


def _seeds(text: str | None) -> list[int]:
    """Parse a comma-separated list of seeds."""
    names = split(text) or ()
    for name in names:
        if not name.isdecimal():
            raise InvalidValue(f"--draws takes whole numbers, as in 0,4,10, not {name!r}")
    return [int(name) for name in names]


def _show_status(folder: Path) -> None:
    from rich.console import Console

    from shiftproof.reporting.sweep import standing_table
    from shiftproof.sweeps.standing import sweep_status

    standing, running = sweep_status(folder)
    Console().print(standing_table(standing))
    if running:
        print("running")
    elif standing.left:
        print("No process is running. Run the command again to resume.")
    elif standing.counts["failed"]:
        print("All runs have ended, some failed: --retry-failed runs those again.")
    else:
        print("All runs have ended.")
