"""``shiftproof reproduce``: reproduce the tables and figures of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shiftproof.cli import options
from shiftproof.cli.options import parse_assignments, split
from shiftproof.core.errors import InvalidValue, UnknownName

if TYPE_CHECKING:
    from shiftproof.paper.studies import Findings

EXAMPLE = "Example: [bold]shiftproof reproduce table1 --scale lite --out reproduction[/]"
RUNNING_TIME = "running-time"
STUDIES = (
    "table1", "figure1", "table2", "ablation-components", "ablation-gradient",
    "ablation-representation", "ablation-pdm", RUNNING_TIME,
)  # fmt: skip
# Options that apply only to runs, not to reading records or timing.
OF_RUNS = (
    "dry_run", "executor", "ray_address", "workers", "precision", "retry_failed", "backbone",
    "weights",
)  # fmt: skip
# Options that do not apply to a study.
UNUSED = {
    "table1": ("n_hparams", "test_domain", "selection"),
    "figure1": ("n_hparams", "test_domain", "selection", "rows"),
    RUNNING_TIME: (
        "records", "scale", "runs", "rows", "data", "n_hparams", "test_domain", "selection",
        *OF_RUNS,
    ),
}  # fmt: skip


def reproduce(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of {', '.join(STUDIES)}.")],
    scale: Annotated[
        str, typer.Option(help="full (as published) or lite (reduced size, data in the package).")
    ] = "full",
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the runs, tables and figures, shared by all studies; default"
            " reproduction. With --records, nothing is written by default."
        ),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(
            help="Repetitions with other data seeds; default 10 for table1 and 3 otherwise (lite:"
            " 3, table2 1); figure1 uses the first."
        ),
    ] = None,
    n_hparams: Annotated[
        int | None, typer.Option(help="Draws of hyper-parameters (DomainBed); default 20; lite 3.")
    ] = None,
    rows: Annotated[
        str | None, typer.Option(help="Rows of the table to run, by name, separated by commas.")
    ] = None,
    datasets: Annotated[
        str | None, typer.Option(help="Datasets of the study to run, separated by commas.")
    ] = None,
    data: Annotated[
        list[str] | None, typer.Option(help="DATASET=FOLDER, to replace a dataset; repeatable.")
    ] = None,
    test_domain: options.TestDomains = None,
    selection: Annotated[
        str | None,
        typer.Option(
            help="Selection methods (DomainBed), separated by commas: default oracle; for table2"
            " training-domain too and, at full scale, leave-one-domain-out."
        ),
    ] = None,
    backbone: Annotated[
        str, typer.Option(help="Network that computes the features of images (lite).")
    ] = "resnet50",
    weights: options.FrozenWeights = "pretrained",
    records: Annotated[
        Path | None,
        typer.Option(help="Folder of a sweep or file of records to read instead of running."),
    ] = None,
    executor: options.Executor = "local",
    ray_address: options.RayAddress = None,
    workers: options.RunsAtOnce = None,
    device: options.Device = "auto",
    precision: options.Precision = "fp32",
    retry_failed: options.RetryFailed = False,
    dry_run: options.DryRun = False,
    quiet: options.Quiet = False,
) -> None:
    """Reproduce a table or figure of the paper; run the same command again to resume.

    Prints the paper's figures and ours side by side, with the difference in standard errors.
    """
    if name not in STUDIES:
        raise UnknownName("study", name, STUDIES)
    if scale not in ("full", "lite"):
        raise UnknownName("scale", scale, ("full", "lite"))
    for option, count in (("--runs", runs), ("--n-hparams", n_hparams), ("--workers", workers)):
        if count is not None and count < 1:
            raise InvalidValue(f"{option} must be at least 1, not {count}")
    _refuse(context, UNUSED.get(name, ()), name)
    if records is not None:
        _refuse(context, (*OF_RUNS, "device"), "--records, which only reads results")
    base = out or Path("reproduction")
    if name == RUNNING_TIME:
        _show(_timings(datasets, base / RUNNING_TIME, device, quiet=quiet), name, base)
        return
    from shiftproof.cli.sweep_progress import SweepProgress
    from shiftproof.paper.catalogue import STUDIES as CLASSES
    from shiftproof.paper.reproduce import read_findings, reproduce as run
    from shiftproof.paper.studies import Choice
    from shiftproof.sweeps.executors import open_executor
    from shiftproof.sweeps.jobs import Frozen

    choice = Choice(
        scale="full" if scale == "full" else "lite",
        datasets=split(datasets),
        algorithms=split(rows),
        test_domains=tuple(test_domain or ()),
        draws=n_hparams,
        trials=runs,
        selectors=split(selection),
        data=parse_assignments("--data", data or []),
    )
    study = CLASSES[name]()
    study.blocks(choice)  # raises for a misspelt name before anything is loaded
    if records is not None:
        _show(read_findings(study, choice, records), name, out and base / scale)
        return
    with (
        open_executor(executor, workers, ray_address) as place,
        SweepProgress(quiet=quiet, dry_run=dry_run) as progress,
    ):
        findings, result = run(
            study, choice, base / scale / study.folder, place,
            Frozen(backbone, weights, precision), device=device, precision=precision,
            retry_failed=retry_failed, dry_run=dry_run, observer=progress,
        )  # fmt: skip
    if findings is not None:
        _show(findings, name, base / scale)
    if result is not None and not result.complete:
        raise typer.Exit(130 if result.stopped else 1)


def _refuse(context: typer.Context, unused: tuple[str, ...], what: str) -> None:
    """Raise if an option was given that would have no effect."""
    for parameter in unused:
        source = context.get_parameter_source(parameter)
        if source is not None and source.name == "COMMANDLINE":
            raise InvalidValue(f"--{parameter.replace('_', '-')} does not apply to {what}")


def _show(findings: Findings, name: str, folder: Path | None) -> None:
    """Print the tables, and write tables and figures to a folder, if one is given."""
    from rich.console import Console

    from shiftproof.reporting.paper_tables import comparison_table, write_findings
    from shiftproof.reporting.renderers.terminal import as_rich

    console = Console()
    for table in findings.comparisons:
        console.print(as_rich(comparison_table(table), console.width))
    if folder is not None:
        typer.echo(f"written: {', '.join(map(str, write_findings(findings, name, folder)))}")
    elif findings.curves is not None:
        raise InvalidValue(f"{name} is a figure: give --out to write it")


def _timings(datasets: str | None, folder: Path, device: str, *, quiet: bool) -> Findings:
    """Measure the time of steps; nothing else should run meanwhile."""
    from shiftproof.paper.measure import quieten_profiler

    quieten_profiler()
    from shiftproof.paper.running_time import reproduce_timings

    def tell(dataset: str) -> None:
        if not quiet:
            typer.echo(f"measuring steps of {dataset}", err=True)

    return reproduce_timings(split(datasets), folder, device, tell)
