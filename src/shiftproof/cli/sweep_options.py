"""Options that `sweep` and `reproduce` share."""

from __future__ import annotations

from typing import Annotated, Any

import typer


def runs_option(help: str, *names: str, **settings: Any) -> Any:
    """Return an option about how runs are made, which the help lists under Runs."""
    return typer.Option(*names, help=help, rich_help_panel="Runs", **settings)


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
Executor = Annotated[str, runs_option("Where runs are made: local (processes) or ray (a cluster).")]
RayAddress = Annotated[
    str | None,
    runs_option("Ray cluster, HOST:PORT or auto; default one on this machine.", metavar="ADDRESS"),
]
RunsAtOnce = Annotated[int | None, runs_option("Runs at once; default as cores and memory allow.")]
RunDevice = Annotated[str, runs_option("auto, cpu, cuda or mps.")]
RunPrecision = Annotated[str, runs_option("fp32 or bf16.")]
RetryFailed = Annotated[bool, runs_option("Run failed runs again.", "--retry-failed")]
DryRun = Annotated[bool, runs_option("Print the plan and stop.", "--dry-run")]


def split(text: str | None) -> tuple[str, ...] | None:
    """Return the names in a list that is separated by commas.

    >>> split("erm, idm")
    ('erm', 'idm')
    """
    return None if text is None else tuple(name.strip() for name in text.split(","))
