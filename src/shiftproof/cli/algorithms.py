"""``shiftproof algorithms``: list the algorithms and their hyper-parameters."""

from __future__ import annotations

from shiftproof.cli._options import Argument, command
from shiftproof.core.settings import Settings
from shiftproof.training.settings import TrainingSettings


@command(
    Settings,
    Argument("name", "Algorithm to describe.", required=False),
    example="[bold]shiftproof algorithms idm[/]",
)
def algorithms(name: str | None, settings: Settings) -> None:
    """List the algorithms, or describe one."""
    TrainingSettings(name)  # check the name before the imports
    from rich.console import Console

    from shiftproof.learners.algorithms import ALGORITHMS
    from shiftproof.paper.running_time import relative_cost
    from shiftproof.reporting.listings import algorithm_description, algorithm_table

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
