"""``shiftproof demo``: what the library is for, in three minutes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from shiftproof.training.loop import RunResult

EXAMPLE = "Example: [bold]shiftproof demo --seed 1[/]"


def demo(
    seed: Annotated[int, typer.Option(help="Data, starting weights: everything.")] = 0,
    out: Annotated[
        Path, typer.Option(help="Folder for the two runs, the picture and the page.")
    ] = Path("shiftproof-demo"),
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print accuracies and seconds for programs.")
    ] = False,
) -> None:
    """Train ERM and IDM on Colored MNIST and compare them where the colours are reversed."""
    from rich.console import Console

    from shiftproof.cli.progress import ProgressBar
    from shiftproof.core.files import write_atomically
    from shiftproof.report.demo import demo_page, demo_picture, demo_sentence, demo_table
    from shiftproof.sweeps.demo import CEILING, Accuracies, is_finished, load_demo_data, run_demo

    folder = out / f"seed-{seed}"
    if folder.exists() and is_finished(folder):
        shutil.rmtree(folder)  # a demonstration shows the training; only a broken-off one goes on
    dataset = load_demo_data(seed)
    results = run_demo(
        dataset, seed, folder, lambda name: ProgressBar(name.upper(), quiet=as_json), device
    )
    _stop_unless_finished(results)
    accuracies = {name: Accuracies.of(result.final) for name, result in results.items()}
    picture = folder / "demo.png"
    write_atomically(picture, demo_picture(dataset, results))
    page = folder / "report.html"
    write_atomically(page, demo_page(folder, accuracies).encode())
    if as_json:
        outcome = {
            "seed": seed,
            **{
                name: {**vars(accuracies[name]), "seconds": round(results[name].seconds, 2)}
                for name in results
            },
            "ceiling": CEILING,
            "seconds": round(sum(result.seconds for result in results.values()), 2),
            "picture": str(picture),
            "page": str(page),
        }
        print(json.dumps(outcome))
        return
    console = Console()
    console.print(demo_table(accuracies, {n: r.seconds for n, r in results.items()}, seed))
    console.print(demo_sentence(accuracies))
    console.print(f"Picture: {picture}", highlight=False, soft_wrap=True)
    console.print(f"Page: {page}", highlight=False, soft_wrap=True)


def _stop_unless_finished(results: dict[str, RunResult]) -> None:
    """Leave with a word if a run was interrupted or diverged."""
    name, last = list(results.items())[-1]
    if last.status == "stopped":
        typer.echo(f"stopped {name} after step {last.step}; the same command goes on", err=True)
        raise typer.Exit(130)
    if last.status == "diverged":
        typer.echo(f"{name} diverged at step {last.step}", err=True)
        raise typer.Exit(1)
