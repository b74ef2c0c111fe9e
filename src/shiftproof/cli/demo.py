"""``shiftproof demo``: ERM and IDM on Colored MNIST, in three minutes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from shiftproof.cli.options import AsJson, Device

EXAMPLE = "Example: [bold]shiftproof demo --seed 1[/]"


def demo(
    seed: Annotated[int, typer.Option(help="Seed of the data and of the starting weights.")] = 0,
    out: Annotated[
        Path, typer.Option(help="Folder for the two runs, the picture and the page.")
    ] = Path("shiftproof-demo"),
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Train ERM and IDM on Colored MNIST and compare them where the colours are reversed."""
    from rich.console import Console

    from shiftproof.cli.progress import ProgressBar
    from shiftproof.reporting.demo import demo_sentence, demo_table, write_demo
    from shiftproof.sweeps.demo import CEILING, run_demo

    folder = out / f"seed-{seed}"
    done = run_demo(seed, folder, lambda name: ProgressBar(name.upper(), quiet=as_json), device)
    name, last = done.last
    if last.status == "stopped":
        typer.echo("Interrupted. Run the same command again to resume.", err=True)
        raise typer.Exit(130)
    if last.status == "diverged":
        typer.echo(f"{name} diverged at step {last.step}", err=True)
        raise typer.Exit(1)
    picture, page = write_demo(done, folder)
    accuracies = done.accuracies
    seconds = {name: result.seconds for name, result in done.results.items()}
    if as_json:
        outcome = {
            "seed": seed,
            **{n: {**vars(a), "seconds": round(seconds[n], 2)} for n, a in accuracies.items()},
            "ceiling": CEILING,
            "seconds": round(sum(seconds.values()), 2),
            "picture": str(picture),
            "page": str(page),
        }
        print(json.dumps(outcome))
        return
    console = Console()
    console.print(demo_table(accuracies, seconds, seed))
    console.print(demo_sentence(accuracies))
    console.print(f"Picture: {picture}", highlight=False, soft_wrap=True)
    console.print(f"Page: {page}", highlight=False, soft_wrap=True)
