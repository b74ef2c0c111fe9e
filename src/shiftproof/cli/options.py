"""Reading what several commands share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from shiftproof.core.errors import InvalidValue

# What the commands that use a trained model take alike.
TrainedRun = Annotated[
    Path, typer.Argument(help="Folder of a run that has ended, or the file of a model.")
]
ImageColumn = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Of a manifest: the paths of image files.")
]
NamedDataOption = Annotated[
    list[str] | None, typer.Option(help="NAME=VALUE of a dataset by name; repeatable.")
]
NamedDataSeed = Annotated[
    int | None, typer.Option(help="Of a dataset by name; the run's by default.")
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Workers = Annotated[
    int | None, typer.Option(help="Threads that read images ahead; by default one a core.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]


def parse_assignments(option: str, items: Iterable[str]) -> dict[str, str]:
    """Return {name: value} for items like ``lr=0.001``.

    >>> parse_assignments("--hparam", ["lr=0.001", "order=1"])
    {'lr': '0.001', 'order': '1'}
    """
    values: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not (name and equals and value):
            raise InvalidValue(f"{option} takes name=value, not {item!r}")
        if name in values:
            raise InvalidValue(f"{option} gives {name} twice")
        values[name] = value
    return values
