"""``shiftproof demo``: ERM and IDM on Colored MNIST, in three minutes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from shiftproof.cli._options import AsJson, command
from shiftproof.core.settings import path, setting, whole
from shiftproof.training.settings import DeviceSettings


@dataclass(frozen=True, kw_only=True)
class DemoOptions(DeviceSettings, AsJson):
    """The options of `shiftproof demo`."""

    seed: int = setting(
        0, whole(0), "Seed of the data and of the starting weights.", panel="Training"
    )
    out: Path = setting(
        Path("shiftproof-demo"), path, "Folder for the two runs, the picture and the page."
    )


@command(DemoOptions, example="[bold]shiftproof demo --seed 1[/]")
def demo(settings: DemoOptions) -> None:
    """Train ERM and IDM on Colored MNIST and compare them where the colours are reversed."""
    from rich.console import Console

    from shiftproof.cli.progress import ProgressBar
    from shiftproof.reporting.demo import demo_sentence, demo_table, write_demo
    from shiftproof.sweeps.demo import CEILING, run_demo

    seed = settings.seed
    folder = settings.out / f"seed-{seed}"
    done = run_demo(
        seed,
        folder,
        lambda name: ProgressBar(name.upper(), quiet=settings.as_json),
        settings.device,
    )
    name, last = done.last
    if last.status == "stopped":
        raise KeyboardInterrupt  # the command line prints how to resume
    if last.status == "diverged":
        click.echo(f"{name} diverged at step {last.step}", err=True)
        raise click.exceptions.Exit(1)
    picture, page = write_demo(done, folder)
    accuracies = done.accuracies
    seconds = {name: result.seconds for name, result in done.results.items()}
    outcome = {
        "seed": seed,
        **{n: {**vars(a), "seconds": round(seconds[n], 2)} for n, a in accuracies.items()},
        "ceiling": CEILING,
        "seconds": round(sum(seconds.values()), 2),
        "picture": str(picture),
        "page": str(page),
    }
    if settings.print_json(outcome):
        return
    console = Console()
    console.print(demo_table(accuracies, seconds, seed))
    console.print(demo_sentence(accuracies))
    console.print(f"Picture: {picture}", highlight=False, soft_wrap=True)
    console.print(f"Page: {page}", highlight=False, soft_wrap=True)
