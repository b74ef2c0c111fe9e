"""``shiftproof datasets``: what there is to train on."""

from __future__ import annotations

from typing import Annotated

import typer

EXAMPLE = "Example: [bold]shiftproof datasets colored-mnist[/]"


def datasets(
    name: Annotated[str | None, typer.Argument(help="Show this one in full.")] = None,
) -> None:
    """List the datasets, or show one's card."""
    from rich.console import Console

    from shiftproof.data import DATASETS
    from shiftproof.report.tables import dataset_description, dataset_table

    console = Console()
    if name is None:
        console.print(dataset_table(dict(DATASETS.items())))
    else:
        for part in dataset_description(name, DATASETS.get(name)):
            console.print(part)
