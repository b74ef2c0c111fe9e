"""`shiftproof data`: list, show, download, import, check and remove datasets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shiftproof.cli._options import Argument, AsJson, Group, command
from shiftproof.core.settings import Settings, flag, setting

if TYPE_CHECKING:
    from shiftproof.data.base import Progress
    from shiftproof.data.library.base import LocalCopy

NAME = Argument("name", "A dataset; see [bold]shiftproof data list[/].")


@click.group(cls=Group, name="data", no_args_is_help=True)
def app() -> None:
    """List datasets, download or import them, check them."""


app.example = "[bold]shiftproof data import pacs ~/Downloads/PACS.zip[/]"


@dataclass(frozen=True, kw_only=True)
class Replace(Settings):
    """Whether to overwrite."""

    replace: bool = setting(False, flag, "Overwrite an existing copy.")


@dataclass(frozen=True, kw_only=True)
class ImportOptions(Replace):
    """The options of `shiftproof data import`."""

    link: bool = setting(False, flag, "Make hard links instead of copies, to save space.")


@dataclass(frozen=True, kw_only=True)
class RemoveOptions(Settings):
    """The options of `shiftproof data remove`."""

    yes: bool = setting(False, flag, "Do not ask.", letter="y")


@app.add_command
@command(Settings, example="[bold]shiftproof data list[/]", name="list")
def list_(settings: Settings) -> None:
    """List all datasets, and which of them are on this machine."""
    from shiftproof.data import DATASETS
    from shiftproof.data.library.base import library_datasets, local_copy
    from shiftproof.reporting.listings import dataset_table

    copies = {name: local_copy(name) for name in library_datasets()}
    _print([dataset_table(dict(DATASETS.items()), copies)])


@app.add_command
@command(Settings, NAME, example="[bold]shiftproof data show pacs[/]")
def show(name: str, settings: Settings) -> None:
    """Show a dataset's domains, classes, counts, licence, sources and options."""
    from shiftproof.data import DATASETS
    from shiftproof.data.library.base import library_datasets, local_copy
    from shiftproof.reporting.listings import dataset_description

    source = DATASETS.get(name)
    held = local_copy(name) if name in library_datasets() else None
    _print(dataset_description(name, source, held))


@app.add_command
@command(Replace, NAME, example="[bold]shiftproof data pull pacs[/]")
def pull(name: str, settings: Replace) -> None:
    """Download and import a dataset. Run the same command again to resume."""
    from shiftproof.data.library.importing import pull_dataset

    _add(
        name,
        lambda progress: pull_dataset(name, replace=settings.replace, progress=progress),
        "Interrupted. Run the same command again to resume.",
    )


@app.add_command
@command(
    ImportOptions,
    NAME,
    Argument("path", "A folder or an archive, as published."),
    example=app.example,
    name="import",
)
def import_(name: str, path: str, settings: ImportOptions) -> None:
    """Import a dataset that you already have, or part of it."""
    from shiftproof.data.library.importing import import_dataset

    _add(
        name,
        lambda progress: import_dataset(
            name, Path(path), replace=settings.replace, link=settings.link, progress=progress
        ),
        "Interrupted. Nothing was changed. Run the same command again to start over.",
    )


@app.add_command
@command(
    AsJson,
    Argument("data", "A dataset, or a folder DIR/domain/class/.", metavar="NAME|DIR"),
    example="[bold]shiftproof data check pacs[/]",
)
def check(data: str, settings: AsJson) -> None:
    """Read every image and find missing, unreadable, repeated and leaked ones.

    The exit code is 1 if there are errors, which make results wrong.
    """
    from shiftproof.cli.progress import LoadingBar
    from shiftproof.data.library.importing import check_data
    from shiftproof.reporting.listings import check_report

    with LoadingBar(quiet=settings.as_json) as progress:
        result = check_data(data, progress)
    if settings.as_json:
        print(json.dumps(result.to_json(), ensure_ascii=False))
    else:
        _print(check_report(data, result), soft_wrap=True)
    raise click.exceptions.Exit(0 if result.sound else 1)


@app.add_command
@command(RemoveOptions, NAME, example="[bold]shiftproof data remove pacs[/]")
def remove(name: str, settings: RemoveOptions) -> None:
    """Delete a dataset that was pulled or imported."""
    from shiftproof.data.library.base import folder_of, library_datasets
    from shiftproof.data.library.importing import remove_dataset

    folder = folder_of(name)
    if not settings.yes and name in library_datasets() and folder.exists():
        click.confirm(f"Delete {folder}?", abort=True)
    remove_dataset(name)
    print(f"removed {folder}")


def _add(name: str, work: Callable[[Progress], LocalCopy], when_interrupted: str) -> None:
    """Import or pull a dataset with a progress bar, and show the resulting local copy."""
    from shiftproof.cli.progress import LoadingBar
    from shiftproof.data.library.base import folder_of, library_datasets
    from shiftproof.reporting.listings import local_copy_report

    try:
        with LoadingBar() as progress:
            held = work(progress)
    except KeyboardInterrupt:
        click.echo(when_interrupted, err=True)
        raise click.exceptions.Exit(130) from None
    _print(local_copy_report(library_datasets()[name], held))
    _print([f"It is in {folder_of(name)}"], soft_wrap=True, highlight=False)


def _print(parts: Iterable[Any], **style: Any) -> None:
    from rich.console import Console

    console = Console()
    for part in parts:
        console.print(part, **style)
