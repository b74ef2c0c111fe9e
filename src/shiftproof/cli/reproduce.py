"""``shiftproof reproduce``: the paper's tables and figures, made again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shiftproof.cli.options import Device, Quiet, parse_assignments
from shiftproof.core.errors import InvalidValue, UnknownName

if TYPE_CHECKING:
    from shiftproof.paper.comparison import Comparison
    from shiftproof.paper.studies import Choice, Findings, Study
    from shiftproof.sweeps.executors.base import Executor
    from shiftproof.sweeps.jobs import Frozen, Job

EXAMPLE = "Example: [bold]shiftproof reproduce table1 --scale lite --out reproduction[/]"
RUNNING_TIME = "running-time"
STUDIES = (
    "table1",
    "figure1",
    "table2",
    "ablation-components",
    "ablation-gradient",
    "ablation-representation",
    "ablation-pdm",
    RUNNING_TIME,
)


# What only matters to runs, and so not to what is read from records or timed.
OF_RUNS = (
    "dry_run", "executor", "ray_address", "workers", "precision", "retry_failed", "backbone",
    "weights",
)  # fmt: skip
# What changes nothing about a study.
IDLE = {
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
        str, typer.Option(help="full (as published) or lite (a laptop's; data in the package).")
    ] = "full",
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the runs, tables and figures, shared by all studies; reproduction by"
            " default. With --records nothing is written unless it is given."
        ),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(
            help="Repetitions with other data seeds; by default 10 for table1 and 3 otherwise"
            " (lite: 3, table2 1); figure1 takes the first."
        ),
    ] = None,
    n_hparams: Annotated[
        int | None,
        typer.Option(help="Draws of hyper-parameters under DomainBed; by default 20, or 3 (lite)."),
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(help="Run some rows of the table alone, by their names, separated by commas."),
    ] = None,
    datasets: Annotated[
        str | None, typer.Option(help="Some datasets of the study alone, separated by commas.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(help="DATASET=FOLDER to take in place of a dataset; repeatable."),
    ] = None,
    test_domain: Annotated[
        list[str] | None,
        typer.Option(
            help="Domain to hold out, by default each; repeatable. Every dataset must have it."
        ),
    ] = None,
    selection: Annotated[
        str | None,
        typer.Option(
            help="Ways of selection under DomainBed, separated by commas: by default oracle; for"
            " table2 training-domain too and, at full scale, leave-one-domain-out."
        ),
    ] = None,
    backbone: Annotated[
        str, typer.Option(help="Whose features are used where images are frozen (lite).")
    ] = "resnet50",
    weights: Annotated[
        str, typer.Option(metavar="PATH", help="Of that backbone: a file, pretrained or random.")
    ] = "pretrained",
    records: Annotated[
        Path | None,
        typer.Option(help="Run nothing: read a sweep's folder or file of records instead."),
    ] = None,
    executor: Annotated[
        str, typer.Option(help="Where runs are made: local (processes) or ray (a cluster).")
    ] = "local",
    ray_address: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Of a Ray cluster, HOST:PORT or auto.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Runs at once; by default as cores and memory allow.")
    ] = None,
    device: Device = "auto",
    precision: Annotated[str, typer.Option(help="fp32 or bf16.")] = "fp32",
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try failed runs again.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop.")] = False,
    quiet: Quiet = False,
) -> None:
    """Make a table or figure of the paper again; the same command goes on where it stopped.

    Prints the paper's figures and ours side by side, with the difference in standard errors.
    """
    if name not in STUDIES:
        raise UnknownName("study", name, STUDIES)
    if scale not in ("full", "lite"):
        raise UnknownName("scale", scale, ("full", "lite"))
    for option, count in (("--runs", runs), ("--n-hparams", n_hparams), ("--workers", workers)):
        if count is not None and count < 1:
            raise InvalidValue(f"{option} must be at least 1, not {count}")
    _refuse(context, IDLE.get(name, ()), name)
    if records is not None:
        _refuse(context, (*OF_RUNS, "device"), "--records, which runs nothing")
    base = out or Path("reproduction")
    if name == RUNNING_TIME:
        _time(datasets, base / RUNNING_TIME, device, quiet=quiet)
        return
    from shiftproof.paper.catalogue import STUDIES as RUN
    from shiftproof.paper.recorded_runs import runs_of_study
    from shiftproof.paper.studies import Choice
    from shiftproof.sweeps.executors import open_executor
    from shiftproof.sweeps.jobs import Frozen
    from shiftproof.sweeps.results import read_sweep

    choice = Choice(
        scale="full" if scale == "full" else "lite",
        datasets=_names(datasets),
        algorithms=_names(rows),
        test_domains=tuple(test_domain or ()),
        draws=n_hparams,
        trials=runs,
        selectors=_names(selection),
        data=parse_assignments("--data", data or []),
    )
    study = RUN[name]()
    study.blocks(choice)  # a name misspelt is told before anything is loaded
    folder = base / scale
    failed = False
    if records is None:
        frozen = Frozen(backbone, weights, precision)
        with open_executor(executor, workers, ray_address) as place:
            failed = _run(
                study, choice, folder / study.folder, place, frozen, device, precision,
                retry_failed=retry_failed, dry_run=dry_run, quiet=quiet,
            )  # fmt: skip
        if dry_run:
            return
    source = records or folder / study.folder
    outcomes = read_sweep(source)
    findings = study.find(runs_of_study(outcomes, study, choice), choice)
    if not findings:
        there = dict.fromkeys(f"{run.algorithm} on {run.dataset}" for run in outcomes)
        some = ", ".join([*there][:3]) + (", …" if len(there) > 3 else "")
        raise InvalidValue(
            f"{source} has no finished run of {name} as asked for; it has {some or 'none at all'}"
        )
    _show(findings, name, folder if records is None or out is not None else None)
    if failed:
        raise typer.Exit(1)


def _refuse(context: typer.Context, idle: tuple[str, ...], what: str) -> None:
    """Refuse options that were given and would do nothing."""
    for parameter in idle:
        source = context.get_parameter_source(parameter)
        if source is not None and source.name == "COMMANDLINE":
            raise InvalidValue(f"--{parameter.replace('_', '-')} is not for {what}")


def _run(
    study: Study,
    choice: Choice,
    folder: Path,
    place: Executor,
    frozen: Frozen,
    device: str,
    precision: str,
    *,
    retry_failed: bool,
    dry_run: bool,
    quiet: bool,
) -> bool:
    """Make the runs that are left; return whether some failed.  If stopped, the command ends."""
    from dataclasses import replace

    from rich.console import Console

    from shiftproof.cli.progress import LoadingBar
    from shiftproof.cli.sweep import run_plan
    from shiftproof.paper.planning import plan_study
    from shiftproof.report.sweep import plan_table
    from shiftproof.sweeps.store import SweepFolder

    store = SweepFolder(folder)

    ended = ("finished", "diverged") if retry_failed else ("finished", "diverged", "failed")

    def is_left(job: Job) -> bool:
        return store.state(job) not in ended

    with LoadingBar(quiet=quiet) as progress:
        planned = plan_study(
            study,
            choice,
            is_left=is_left,
            frozen=frozen,
            device=device,
            precision=precision,
            progress=progress,
        )
    left = tuple(job for job in planned.jobs if is_left(job))
    if (not quiet and left) or dry_run:
        workers = place.workers(left, planned.memory)
        done = f"{len(planned.jobs) - len(left)} of {len(planned.jobs)} runs are done; left:"
        Console(stderr=True).print(done, plan_table(replace(planned, jobs=left), workers))
    if dry_run:
        return False
    try:
        run_plan(planned, folder, place, retry_failed=retry_failed, quiet=quiet)
    except typer.Exit as end:
        if end.exit_code != 1:
            raise
        return True  # what there is makes a table all the same
    return False


def _show(findings: Findings, name: str, folder: Path | None) -> None:
    """Print the tables, and write tables and figures into a folder, if there is one."""
    from rich.console import Console

    from shiftproof.report.dynamics import write_dynamics
    from shiftproof.report.reproduction import comparison_table

    console = Console()
    for table in findings.comparisons:
        console.print(comparison_table(table, console.width))
    if folder is None:
        if findings.curves is not None:
            raise InvalidValue(f"{name} is a picture: --out must say where it goes")
        return
    written = [path for table in findings.comparisons for path in _write(table, folder)]
    if (curves := findings.curves) is not None:
        folder.mkdir(parents=True, exist_ok=True)
        written += write_dynamics(
            curves.penalties, curves.steps, curves.switch, folder / name, curves.accuracies
        )
    typer.echo(f"written: {', '.join(str(path) for path in written)}")


def _write(table: Comparison, folder: Path) -> list[Path]:
    from shiftproof.report.reproduction import as_latex, as_markdown, as_text
    from shiftproof.training.checkpoint import write_atomically

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for suffix, text in (
        (".txt", as_text(table)),
        (".md", as_markdown(table)),
        (".tex", as_latex(table)),
    ):
        path = folder / f"{table.name}{suffix}"
        write_atomically(path, text.encode())
        paths.append(path)
    return paths


def _time(datasets: str | None, folder: Path, device: str, *, quiet: bool) -> None:
    """Measure steps; nothing else may run meanwhile."""
    from shiftproof.paper.measure import quieten_profiler

    quieten_profiler()  # before torch is imported
    from shiftproof.paper.published import paper_table
    from shiftproof.paper.running_time import compare_timings, read_timings, time_datasets
    from shiftproof.paper.studies import Findings
    from shiftproof.training.config import choose_device

    known = [row.ours for row in paper_table(RUNNING_TIME).rows]
    # The others' network takes minutes a step without a GPU.
    chosen = _names(datasets) or ("colored-mnist", "rotated-mnist")
    for dataset in chosen:
        if dataset not in known:
            raise UnknownName("dataset of this study", dataset, known)

    def tell(dataset: str) -> None:
        if not quiet:
            typer.echo(f"measuring steps of {dataset}", err=True)

    time_datasets(chosen, folder, choose_device(device), tell)
    table = compare_timings(read_timings(folder, choose_device(device)))
    _show(Findings((table,)), RUNNING_TIME, folder.parent)


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(","))
