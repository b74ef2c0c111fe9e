"""``shiftproof reproduce``: reproduce the tables and figures of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shiftproof.api.settings import ExecutorSettings, SweepSettings
from shiftproof.cli._options import Argument, Quiet, command
from shiftproof.core.errors import InvalidValue, UnknownName
from shiftproof.core.settings import joined, one_of, pairs, path, same, setting, whole

if TYPE_CHECKING:
    from shiftproof.paper.studies import Findings

RUNNING_TIME = "running-time"
STUDIES = (
    "table1", "figure1", "table2", "ablation-components", "ablation-gradient",
    "ablation-representation", "ablation-pdm", RUNNING_TIME,
)  # fmt: skip
# Settings that apply only to runs, not to reading records or timing.
OF_RUNS = (
    "dry_run", "executor", "ray_address", "workers", "precision", "retry_failed", "backbone",
    "weights",
)  # fmt: skip
# Settings that do not apply to a study.
UNUSED = {
    "table1": ("n_hparams", "test_domains", "selection"),
    "figure1": ("n_hparams", "test_domains", "selection", "rows"),
    RUNNING_TIME: (
        "records", "scale", "runs", "rows", "data", "n_hparams", "test_domains", "selection",
        *OF_RUNS,
    ),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions(ExecutorSettings, Quiet):
    """The options of `shiftproof reproduce`."""

    scale: str = setting(
        "full",
        one_of(("full", "lite")),
        "full (as published) or lite (reduced size, data in the package).",
        panel="Runs",
    )
    out: Path | None = setting(
        None,
        path,
        "Folder of the runs, tables and figures, shared by all studies; default reproduction. With"
        " --records, nothing is written by default.",
    )
    runs: int | None = setting(
        None,
        whole(1),
        "Repetitions with other data seeds; default 10 for table1 and 3 otherwise (lite: 3, table2"
        " 1); figure1 uses the first.",
        panel="Runs",
    )
    n_hparams: int | None = setting(
        None, whole(1), "Draws of hyper-parameters (DomainBed); default 20; lite 3.", panel="Runs"
    )
    rows: tuple[str, ...] | None = setting(
        None, joined, "Rows of the table to run, by name, separated by commas.", panel="Runs"
    )
    datasets: tuple[str, ...] | None = setting(
        None, joined, "Datasets of the study to run, separated by commas.", panel="Data"
    )
    data: Mapping[str, str] | None = setting(
        None,
        pairs,
        "Folder that replaces a dataset; repeatable.",
        panel="Data",
        metavar="DATASET=FOLDER",
        repeats=True,
    )
    selection: tuple[str, ...] | None = same(
        SweepSettings,
        "selection",
        default=None,
        help="Selection methods (DomainBed), separated by commas: default oracle; for table2"
        " training-domain too and, at full scale, leave-one-domain-out.",
    )
    records: Path | None = setting(
        None, path, "Folder of a sweep or file of records to read instead of running.", panel="Data"
    )


@command(
    ReproduceOptions,
    Argument("name", f"One of {', '.join(STUDIES)}.", metavar="NAME"),
    example="[bold]shiftproof reproduce table1 --scale lite --out reproduction[/]",
)
def reproduce(name: str, settings: ReproduceOptions) -> None:
    """Reproduce a table or figure of the paper; run the same command again to resume.

    Prints the paper's figures and ours side by side, with the difference in standard errors.
    """
    if name not in STUDIES:
        raise UnknownName("study", name, STUDIES)
    settings.refuse(UNUSED.get(name, ()), f"{{}} does not apply to {name}")
    out, records, quiet = settings.out, settings.records, settings.quiet
    if records is not None:
        settings.refuse(
            (*OF_RUNS, "device"), "{} does not apply to --records, which only reads results"
        )
    base = out or Path("reproduction")
    if name == RUNNING_TIME:
        _show(_timings(settings, base / RUNNING_TIME), name, base)
        return
    from shiftproof.cli.sweep_progress import SweepProgress
    from shiftproof.paper.reproduce import STUDIES as CLASSES, read_findings, reproduce as run
    from shiftproof.paper.studies import Choice
    from shiftproof.sweeps.executors import open_executor
    from shiftproof.sweeps.jobs import Frozen

    given = settings.given()
    choice = Choice(
        **{field: given[field] for field in Choice.__dataclass_fields__ if field in given}
    )
    study = CLASSES[name]()
    study.blocks(choice)  # raises for a misspelt name before anything is loaded
    if records is not None:
        _show(read_findings(study, choice, records), name, out and base / settings.scale)
        return
    with (
        open_executor(settings.executor, settings.workers, settings.ray_address) as executor,
        SweepProgress(quiet=quiet, dry_run=settings.dry_run) as progress,
    ):
        findings, result = run(
            study, choice, base / settings.scale / study.folder, executor,
            Frozen(settings.backbone, str(settings.weights), settings.precision),
            device=settings.device, precision=settings.precision,
            retry_failed=settings.retry_failed, dry_run=settings.dry_run, observer=progress,
        )  # fmt: skip
    if findings is not None:
        _show(findings, name, base / settings.scale)
    if result is not None and not result.complete:
        raise click.exceptions.Exit(130 if result.stopped else 1)


def _show(findings: Findings, name: str, folder: Path | None) -> None:
    """Print the tables, and write tables and figures to a folder, if one is given."""
    from rich.console import Console

    from shiftproof.reporting.formats import as_aligned_text
    from shiftproof.reporting.paper_tables import comparison_table, write_findings

    width = Console().width
    for table in findings.comparisons:
        click.echo(as_aligned_text(comparison_table(table), width))
    if folder is not None:
        click.echo(f"written: {', '.join(map(str, write_findings(findings, name, folder)))}")
    elif findings.curves is not None:
        raise InvalidValue(f"{name} is a figure: give --out to write it")


def _timings(settings: ReproduceOptions, folder: Path) -> Findings:
    """Measure the time of steps; nothing else should run meanwhile."""
    from shiftproof.paper.measure import quieten_profiler

    quieten_profiler()
    from shiftproof.paper.running_time import reproduce_timings

    def tell(dataset: str) -> None:
        if not settings.quiet:
            click.echo(f"measuring steps of {dataset}", err=True)

    return reproduce_timings(settings.datasets, folder, settings.device, tell)
