"""`shiftproof data`: list, show, download, import, check and remove datasets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from shiftproof.data.base import Progress
    from shiftproof.data.library.base import LocalCopy

EXAMPLE = "Example: [bold]shiftproof data import pacs ~/Downloads/PACS.zip[/]"

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="List datasets, download or import them, check them.",
)

Name = Annotated[str, typer.Argument(help="A dataset; see [bold]shiftproof data list[/].")]
Replace = Annotated[bool, typer.Option("--replace", help="Overwrite an existing copy.")]


@app.command("list", epilog="Example: [bold]shiftproof data list[/]")
def list_() -> None:
    """List all datasets, and which of them are on this machine."""
    from rich.console import Console

    from shiftproof.data import DATASETS
    from shiftproof.data.library.base import library_datasets, local_copy
    from shiftproof.reporting.data import dataset_table

    copies = {name: local_copy(name) for name in library_datasets()}
    Console().print(dataset_table(dict(DATASETS.items()), copies))


@app.command(epilog="Example: [bold]shiftproof data show pacs[/]")
def show(name: Name) -> None:
    """Show a dataset's domains, classes, counts, licence, sources and options."""
    from rich.console import Console

    from shiftproof.data import DATASETS
    from shiftproof.data.library.base import library_datasets, local_copy
    from shiftproof.reporting.data import dataset_description

    source = DATASETS.get(name)
    held = local_copy(name) if name in library_datasets() else None
    console = Console()
    for part in dataset_description(name, source, held):
        console.print(part)


@app.command(epilog="Example: [bold]shiftproof data pull pacs[/]")
def pull(name: Name, replace: Replace = False) -> None:
    """Download and import a dataset. Run the same command again to resume."""
    from shiftproof.data.library.importing import pull_dataset

    _add(
        name,
        lambda progress: pull_dataset(name, replace=replace, progress=progress),
        "Interrupted. Run the same command again to resume.",
    )


@app.command("import", epilog=EXAMPLE)
def import_(
    name: Name,
    path: Annotated[Path, typer.Argument(help="A folder or an archive, as published.")],
    replace: Replace = False,
    link: Annotated[
        bool, typer.Option("--link", help="Make hard links instead of copies, to save space.")
    ] = False,
) -> None:
    """Import a dataset that you already have, or part of it."""
    from shiftproof.data.library.importing import import_dataset

    _add(
        name,
        lambda progress: import_dataset(name, path, replace=replace, link=link, progress=progress),
        "Interrupted. Nothing was changed. Run the same command again to start over.",
    )


@app.command(epilog="Example: [bold]shiftproof data check pacs[/]")
def check(
    data: Annotated[
        str, typer.Argument(metavar="NAME|DIR", help="A dataset, or a folder DIR/domain/class/.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Read every image and find missing, unreadable, repeated and leaked ones.

    The exit code is 1 if there are errors, which make results wrong.
    """
    from rich.console import Console

    from shiftproof.cli.progress import LoadingBar
    from shiftproof.data.library.importing import check_data
    from shiftproof.reporting.data import check_report

    with LoadingBar(quiet=as_json) as progress:
        result = check_data(data, progress)
    if as_json:
        print(json.dumps(result.to_json(), ensure_ascii=False))
    else:
        console = Console()
        for part in check_report(data, result):
            console.print(part, soft_wrap=True)
    raise typer.Exit(0 if result.sound else 1)


@app.command(epilog="Example: [bold]shiftproof data remove pacs[/]")
def remove(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a dataset that was pulled or imported."""
    from shiftproof.data.library.base import folder_of, library_datasets
    from shiftproof.data.library.importing import remove_dataset

    folder = folder_of(name)
    if not yes and name in library_datasets() and folder.exists():
        typer.confirm(f"Delete {folder}?", abort=True)
    remove_dataset(name)
    print(f"removed {folder}")


def _add(name: str, work: Callable[[Progress], LocalCopy], when_interrupted: str) -> None:
    """Import or pull a dataset with a progress bar, and show the resulting local copy."""
    from rich.console import Console

    from shiftproof.cli.progress import LoadingBar
    from shiftproof.data.library.base import folder_of, library_datasets
    from shiftproof.reporting.data import local_copy_report

    try:
        with LoadingBar() as progress:
            held = work(progress)
    except KeyboardInterrupt:
        typer.echo(when_interrupted, err=True)
        raise typer.Exit(130) from None
    console = Console()
    for part in local_copy_report(library_datasets()[name], held):
        console.print(part)
    console.print(f"It is in {folder_of(name)}", soft_wrap=True, highlight=False)
