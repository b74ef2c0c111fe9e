"""Options that `sweep` and `reproduce` share."""

from __future__ import annotations

from typing import Annotated

import typer

from shiftproof.cli.options import option

TestDomains = Annotated[
    list[str] | None,
    typer.Option(
        help="Domain to hold out; default each in turn; repeatable. All datasets need it."
    ),
]
FrozenWeights = Annotated[
    str,
    typer.Option(metavar="PATH", help="Weights of that backbone: a file, pretrained or random."),
]
Executor = Annotated[
    str, option("Runs", "Where runs are made: local (processes) or ray (a cluster).")
]
RayAddress = Annotated[
    str | None,
    option(
        "Runs", "Ray cluster, HOST:PORT or auto; default one on this machine.", metavar="ADDRESS"
    ),
]
RunsAtOnce = Annotated[
    int | None, option("Runs", "Runs at once; default as cores and memory allow.")
]
RetryFailed = Annotated[bool, option("Runs", "Run failed runs again.", "--retry-failed")]
DryRun = Annotated[bool, option("Runs", "Print the plan and stop.", "--dry-run")]


def split(text: str | None) -> tuple[str, ...] | None:
    """Return the names in a list that is separated by commas.

    >>> split("erm, idm")
    ('erm', 'idm')
    """
    return None if text is None else tuple(name.strip() for name in text.split(","))
