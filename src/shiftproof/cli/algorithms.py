"""``shiftproof algorithms``: list the algorithms and their hyper-parameters."""

from __future__ import annotations

from typing import Annotated

import typer

from shiftproof.cli.preflight import check_settings

EXAMPLE = "Example: [bold]shiftproof algorithms idm[/]"


def algorithms(
    name: Annotated[str | None, typer.Argument(help="Algorithm to describe.")] = None,
) -> None:
    """List the algorithms, or describe one."""
    check_settings(name)
    from rich.console import Console

    from shiftproof.learners.algorithms import ALGORITHMS
    from shiftproof.paper.running_time import relative_cost
    from shiftproof.reporting.algorithms import algorithm_description, algorithm_table

    console = Console()
    if name is None:
        console.print(algorithm_table(dict(ALGORITHMS.items())))
    else:
        algorithm = ALGORITHMS.get(name)
        for part in algorithm_description(name, algorithm):
            console.print(part)
        if algorithm.exact or name == "erm":
            return  # it has no steps to compare, or is the reference itself
        with Console(stderr=True).status("measuring a step …"):
            cost = relative_cost(name)
        console.print(f"A step takes {cost:.2f} × the time of ERM (measured now, MNIST network).")
