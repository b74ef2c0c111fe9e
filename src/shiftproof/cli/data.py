"""``shiftproof data``: what there is to train on, and getting it onto this machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shiftproof.core.errors import DataError, UnknownName

if TYPE_CHECKING:
    from shiftproof.data.base import Progress
    from shiftproof.data.images.check import Examination
    from shiftproof.data.library.store import Holding

EXAMPLE = "Example: [bold]shiftproof data import pacs ~/Downloads/PACS.zip[/]"

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="List datasets, download or import them, check them.",
)

Name = Annotated[str, typer.Argument(help="A dataset; see [bold]shiftproof data list[/].")]
Replace = Annotated[
    bool, typer.Option("--replace", help="Even if the set is here, complete or larger.")
]


@app.command("list", epilog="Example: [bold]shiftproof data list[/]")
def list_() -> None:
    """List the datasets, and which of them are on this machine."""
    from rich.console import Console

    from shiftproof.data import DATASETS
    from shiftproof.data.library.store import holding, kept_sets
    from shiftproof.report.data import dataset_table

    holdings = {name: holding(name) for name in kept_sets()}
    Console().print(dataset_table(dict(DATASETS.items()), holdings))


@app.command(epilog="Example: [bold]shiftproof data show pacs[/]")
def show(name: Name) -> None:
    """Show a dataset's card: domains, classes, counts, licence, sources, options."""
    from rich.console import Console

    from shiftproof.data import DATASETS
    from shiftproof.data.library.store import holding, kept_sets
    from shiftproof.report.data import dataset_description

    source = DATASETS.get(name)
    held = holding(name) if name in kept_sets() else None
    console = Console()
    for part in dataset_description(name, source, held):
        console.print(part)


@app.command(epilog="Example: [bold]shiftproof data pull pacs[/]")
def pull(name: Name, replace: Replace = False) -> None:
    """Download a dataset and import it; the same command goes on where it stopped."""
    from shiftproof.data.library import store as library

    _bring(
        name,
        lambda progress: library.pull(name, replace=replace, progress=progress),
        "the same command goes on where it stopped",
    )


@app.command("import", epilog=EXAMPLE)
def import_(
    name: Name,
    path: Annotated[Path, typer.Argument(help="A folder or an archive, as published.")],
    replace: Replace = False,
    link: Annotated[
        bool, typer.Option("--link", help="Hard links in place of copies; saves the space.")
    ] = False,
) -> None:
    """Take a dataset that you have into Shiftproof's folder; part of one will do."""
    from shiftproof.data.library import store as library

    _bring(
        name,
        lambda progress: library.import_set(
            name, path, replace=replace, link=link, progress=progress
        ),
        "nothing was changed, and the same command starts anew",
    )


@app.command(epilog="Example: [bold]shiftproof data check pacs[/]")
def check(
    data: Annotated[
        str, typer.Argument(metavar="NAME|DIR", help="A dataset, or a folder DIR/domain/class/.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Everything, for programs.")] = False,
) -> None:
    """Read every image; look for missing, unreadable, repeated and leaked ones.

    Exit code 1 means that something was found which spoils results.
    """
    from rich.console import Console

    from shiftproof.cli.progress import LoadingBar
    from shiftproof.report.data import examination_report

    with LoadingBar(quiet=as_json) as progress:
        examination, notes = _examine(data, progress)
    if as_json:
        print(json.dumps({**examination.to_json(), "notes": notes}, ensure_ascii=False))
    else:
        console = Console()
        for part in examination_report(data, examination, notes):
            console.print(part, soft_wrap=True)
    raise typer.Exit(0 if examination.sound else 1)


@app.command(epilog="Example: [bold]shiftproof data remove pacs[/]")
def remove(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a dataset that was pulled or imported."""
    from shiftproof.data.library import store as library

    folder = library.folder_of(name)
    if not yes and name in library.kept_sets() and folder.exists():
        typer.confirm(f"Delete {folder}?", abort=True)
    library.remove(name)
    print(f"removed {folder}")


def _bring(name: str, work: Callable[[Progress], Holding], when_stopped: str) -> None:
    """Import or pull under a progress bar, and say what is here now."""
    from rich.console import Console

    from shiftproof.cli.progress import LoadingBar
    from shiftproof.data.library.store import folder_of, kept_sets
    from shiftproof.report.data import holding_report

    try:
        with LoadingBar() as progress:
            held = work(progress)
    except KeyboardInterrupt:
        typer.echo(f"stopped; {when_stopped}", err=True)
        raise typer.Exit(130) from None
    console = Console()
    for part in holding_report(kept_sets()[name], held):
        console.print(part)
    console.print(f"It is in {folder_of(name)}", soft_wrap=True, highlight=False)


def _examine(data: str, progress: Progress) -> tuple[Examination, list[str]]:
    """Look at every image of a set in the library, or of a folder."""
    from shiftproof.data import DATASETS
    from shiftproof.data.images.check import LabelledImage, examine
    from shiftproof.data.images.folder import find_images
    from shiftproof.data.images.index import scan
    from shiftproof.data.library.completeness import count, expected
    from shiftproof.data.library.store import folder_of, holding, kept_sets

    source = kept_sets().get(data)
    folder = Path(data).expanduser() if source is None else folder_of(data)
    if source is None and data in DATASETS:
        raise DataError(f"{data} is part of the package: there is nothing to check")
    if source is None and folder.is_file():
        raise DataError(f"{data} is a file; data check looks at folders of images and at sets")
    if source is None and not folder.is_dir():
        raise UnknownName("dataset or folder", data, DATASETS)
    if source is not None and holding(data) is None:
        raise DataError(f"{data} is not on this machine; shiftproof data pull {data} downloads it")
    samples, notes = find_images(folder)
    records = scan(
        [sample.path for sample in samples],
        lambda done, total: progress("looking at images", done, total),
    )
    images = [
        LabelledImage(record, sample.domain, sample.label)
        for sample, record in zip(samples, records, strict=True)
    ]
    should = None if source is None else expected(source, count(samples, source.card))
    progress("comparing images", 0, 1)
    return examine(images, should), notes
