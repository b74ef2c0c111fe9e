"""``shiftproof sweep``: many runs, compared honestly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shiftproof.cli.options import parse_assignments
from shiftproof.core.errors import DataError, InvalidValue

if TYPE_CHECKING:
    from shiftproof.sweeps.executors.base import Executor
    from shiftproof.sweeps.jobs import Frozen, Job, SweepData, Variant
    from shiftproof.sweeps.presets import Preset
    from shiftproof.sweeps.sweep import SweepPlan
    from shiftproof.sweeps.tracker import Standing

EXAMPLE = (
    "Example: [bold]shiftproof sweep colored-mnist rotated-mnist --algorithms erm,coral,idm"
    " --preset lite --n-hparams 3 --trials 1 --out sweeps/first[/]"
)


def sweep(
    data: Annotated[
        list[str] | None,
        typer.Argument(help="Datasets by name, folders of images, tables."),
    ] = None,
    algorithms: Annotated[
        str,
        typer.Option(
            help="Separated by commas, or [bold]all[/] (but two-stage, which is for full batches)."
        ),
    ] = "erm,idm",
    preset: Annotated[
        str,
        typer.Option(
            help="Size of the runs: domainbed (as published), lite (a laptop's) or table1 (500 full"
            " batches, as in IRM's study of Colored MNIST; two classes)."
        ),
    ] = "domainbed",
    n_hparams: Annotated[
        int, typer.Option(help="Draws of hyper-parameters; the first is the defaults.")
    ] = 20,
    trials: Annotated[int, typer.Option(help="Repetitions with other data seeds.")] = 3,
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
            help="NAME=VALUE, fixed in every run in place of the draws; repeatable. Tables then"
            " say algorithm\\[NAME=VALUE]."
        ),
    ] = None,
    test_domain: Annotated[
        list[str] | None,
        typer.Option(
            help="Domain to hold out, by default each in turn; repeatable. Every dataset must have"
            " it."
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option(help="In place of the preset's.")] = None,
    label: Annotated[str | None, typer.Option(metavar="COLUMN", help="Of tables.")] = None,
    domain: Annotated[str | None, typer.Option(metavar="COLUMN", help="Of tables.")] = None,
    backbone: Annotated[
        str | None, typer.Option(help="Whose features are used where images are frozen.")
    ] = None,
    weights: Annotated[
        str, typer.Option(metavar="PATH", help="Of that backbone: a file, pretrained or random.")
    ] = "pretrained",
    data_option: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE of every dataset; repeatable.")
    ] = None,
    executor: Annotated[
        str, typer.Option(help="Where runs are made: local (processes) or ray (a cluster).")
    ] = "local",
    ray_address: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Of a Ray cluster, HOST:PORT or auto; without, Ray runs on this machine.",
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Runs at once; by default as cores and memory allow.")
    ] = None,
    models: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="After the runs, put there the model that each selection method chooses.",
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    precision: Annotated[str, typer.Option(help="fp32 or bf16.")] = "fp32",
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try failed runs again.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop.")] = False,
    status: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Show how a sweep stands, and stop.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Run the DomainBed protocol; the same command again goes on where it stopped."""
    from rich.console import Console

    from shiftproof.cli.progress import LoadingBar
    from shiftproof.report.sweep import plan_table
    from shiftproof.sweeps.executors import open_executor
    from shiftproof.sweeps.jobs import Frozen
    from shiftproof.sweeps.presets import preset_named
    from shiftproof.sweeps.sweep import make_plan

    if status is not None:
        _show_status(status)
        return
    if not data:
        raise InvalidValue("name at least one dataset, or give --status DIR")
    if workers is not None and workers < 1:
        raise InvalidValue(f"--workers must be at least 1, not {workers}")
    chosen = preset_named(preset)
    frozen = Frozen(backbone or "resnet50", weights, precision) if chosen.freeze_images else None
    selectors = [name.strip() for name in selection.split(",")]
    compared = rows(chosen_algorithms(algorithms), parse_assignments("--hparam", hparam or []))
    # Before the plan, which takes a while: a cluster that does not answer is told at once.
    with open_executor(executor, workers, ray_address) as place:
        with LoadingBar(quiet=quiet) as progress:
            planned = make_plan(
                _sets(data, chosen, label, domain, data_option or [], frozen),
                compared,
                chosen,
                selectors,
                n_hparams=n_hparams,
                trials=trials,
                steps=steps,
                device=device,
                precision=precision,
                test_domains=test_domain or [],
                progress=progress,
            )
        if not quiet or dry_run:
            workers = place.workers(planned.jobs, planned.memory)
            Console(stderr=True).print(plan_table(planned, workers))
        if dry_run:
            return
        run_plan(planned, out, place, retry_failed=retry_failed, quiet=quiet)
        print(f"shiftproof report {out} prints the tables")
        if models is not None:
            index = _export(planned, selectors, out, models, place, quiet=quiet)
            print(f"{index} lists the chosen models")


def run_plan(
    planned: SweepPlan, out: Path, place: Executor, *, retry_failed: bool, quiet: bool
) -> None:
    """Run a plan and say how it ended; unless all went well, that is the end of the command."""
    from rich.console import Console
    from rich.live import Live

    from shiftproof.report.sweep import failure_lines, standing_table
    from shiftproof.sweeps.sweep import run_sweep

    console = Console(stderr=True)
    with Live(console=console, auto_refresh=False, transient=True) as live:

        def show(standing: Standing) -> None:
            if not quiet and console.is_terminal:
                live.update(standing_table(standing), refresh=True)

        result = run_sweep(planned, out, executor=place, retry_failed=retry_failed, show=show)
    Console().print(standing_table(result.standing))
    for line in failure_lines(result.failures):
        typer.echo(line, err=True)
    if result.stopped:
        typer.echo("stopped; the same command goes on from there", err=True)
        raise typer.Exit(130)
    if result.failures:
        typer.echo("--retry-failed tries the failed runs again", err=True)
        raise typer.Exit(1)


def _export(
    planned: SweepPlan,
    selectors: Sequence[str],
    out: Path,
    models: Path,
    place: Executor,
    *,
    quiet: bool,
) -> Path:
    """Put the models that the selectors choose into a folder; return the file that lists them."""
    from shiftproof.sweeps.results import read_sweep
    from shiftproof.sweeps.selected_models import choose, export
    from shiftproof.sweeps.selection import SELECTORS
    from shiftproof.sweeps.store import SweepFolder

    chosen = choose(planned.jobs, read_sweep(out), [SELECTORS.get(name)() for name in selectors])

    def run(jobs: Sequence[Job], folder: Path) -> None:
        settings = {**planned.settings, "chosen from": "a sweep"}
        again = replace(planned, jobs=tuple(jobs), settings=settings)
        run_plan(again, folder, place, retry_failed=True, quiet=quiet)

    return export(chosen, SweepFolder(out), models, run)


def _show_status(folder: Path) -> None:
    from rich.console import Console

    from shiftproof.report.sweep import standing_table
    from shiftproof.sweeps.store import SweepFolder
    from shiftproof.sweeps.tracker import Standing

    told = SweepFolder(folder).told() if folder.is_dir() else None
    if told is None:
        raise DataError(f"{folder} holds no sweep that has begun")
    Console().print(standing_table(Standing.from_json(told)))
    print("at work" if told["alive"] else "nobody is at work; the same command goes on")


def chosen_algorithms(text: str) -> list[str]:
    """Return the algorithms of ``--algorithms``."""
    from shiftproof.learners.algorithms import ALGORITHMS

    if text == "all":
        return [name for name in ALGORITHMS if not ALGORITHMS.get(name).full_batches]
    names = [name.strip() for name in text.split(",")]
    for name in names:
        ALGORITHMS.get(name)
    if len(set(names)) < len(names):
        raise InvalidValue(f"--algorithms names one twice: {text}")
    return names


def rows(algorithms: Sequence[str], fixed: Mapping[str, str]) -> list[Variant]:
    """Return a row for each algorithm, named after the hyper-parameters that are fixed in it.

    A value has one name however it is written.  Names that are not known are left to the plan,
    which knows the networks.
    """
    from shiftproof.core.space import Scalar, specs
    from shiftproof.learners.algorithms import ALGORITHMS
    from shiftproof.models import MODELS
    from shiftproof.sweeps.jobs import Variant

    if not fixed:
        return [Variant.plain(name) for name in algorithms]
    of_networks = {name: spec for _, model in MODELS.items() for name, spec in specs(model).items()}
    variants = []
    for algorithm in algorithms:
        known = of_networks | specs(ALGORITHMS.get(algorithm).Hparams)
        values: dict[str, Scalar] = {
            name: known[name].parse(text) if name in known else text
            for name, text in sorted(fixed.items())
        }
        said = ",".join(f"{name}={value}" for name, value in values.items())
        variants.append(Variant(f"{algorithm}[{said}]", algorithm, values))
    return variants


def _sets(
    data: Sequence[str],
    preset: Preset,
    label: str | None,
    domain: str | None,
    data_option: Sequence[str],
    frozen: Frozen | None,
) -> list[SweepData]:
    """Return the datasets of a sweep; those of images are frozen if the preset says so."""
    from shiftproof.data import DATASETS
    from shiftproof.data.load import DataRequest
    from shiftproof.sweeps.jobs import SweepData

    options = parse_assignments("--data-option", data_option)
    sets = []
    for name in data:
        registered = name in DATASETS
        images = (
            DATASETS.get(name).card.regime in ("large-image", "huge-image")
            if registered
            else Path(name).expanduser().is_dir()
        )
        table = not registered and not images
        request = DataRequest(
            name, options, label=label if table else None, domain=domain if table else None
        )
        title = name if registered else Path(name).expanduser().absolute().name
        sets.append(SweepData(title, preset.request(request), frozen if images else None))
    return sets
