"""`shiftproof train`: train one model, or one for each held-out domain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

import shiftproof
from shiftproof.api.settings import AtLeastSettings, TrainEachSettings, TrainSettings
from shiftproof.cli._options import DATA, AsJson, Quiet, command
from shiftproof.cli.preflight import check_data, for_each_label
from shiftproof.core.errors import InvalidValue
from shiftproof.core.settings import same
from shiftproof.core.text import counted

if TYPE_CHECKING:
    from shiftproof.api.trained_run import TrainedRun

# The value of --test-domain that holds out every domain in turn.
EACH = "each"
EXAMPLE = (
    "[bold]shiftproof train colored-mnist-irm --algorithm idm --test-domain 10%"
    " --hparam batch_size=512 --hparam gradient_warmup=300 --steps 1000 --out runs/first[/]"
)


@dataclass(frozen=True, kw_only=True)
class TrainOptions(TrainSettings, AtLeastSettings, Quiet, AsJson):
    """The options of `shiftproof train`."""

    test_domains: tuple[str, ...] = same(
        TrainSettings,
        "test_domains",
        help="Domain to hold out; repeatable. [bold]each[/] trains one run per domain; without this"
        " option, all domains are trained on.",
    )


@command(TrainOptions, DATA, example=EXAMPLE)
@for_each_label
def train(data: str, settings: TrainOptions) -> None:
    """Train a model; run the same command again to resume."""
    check_data(data, settings)

    from rich.console import Console

    from shiftproof.cli.progress import ProgressBar
    from shiftproof.inference.expected import check_asked, sentences
    from shiftproof.reporting.terminal import (
        accuracy_table,
        forest_table,
        leave_one_out_table,
        members_table,
        scored_weights,
    )

    held_out, at_least = settings.test_domains, settings.at_least
    one_per_domain = EACH in held_out
    if one_per_domain and held_out != (EACH,):
        raise InvalidValue(
            f"--test-domain {EACH} holds out every domain in turn; give it without other domains"
        )
    if at_least is not None:
        if not one_per_domain:
            raise InvalidValue(f"--at-least needs --test-domain {EACH}")
        check_asked(settings.metric, at_least=at_least)  # before training
    with ProgressBar(quiet=settings.quiet) as observer:
        if one_per_domain:
            table = shiftproof.train_each(
                data, observer=observer, **settings.given(TrainEachSettings)
            )
            runs, outcome = table.runs, table.to_dict(at_least)
        else:
            run = shiftproof.train(data, observer=observer, **settings.given(TrainSettings))
            runs, outcome = (run,), run.to_dict()
    if settings.print_json(outcome) or any(run.status != "finished" for run in runs):
        pass  # `exit_unless_finished` prints the status
    elif one_per_domain:
        Console().print(leave_one_out_table(runs[0].config, table.scores))
        expected = replace(table.expected, at_least=at_least)
        Console().print(forest_table(expected))
        print(*sentences(expected), sep="\n")
        print(f"{len(runs)} runs; they are in {runs[0].folder.parent}")
    else:
        if run.metrics["risk"]:
            Console().print(accuracy_table(run.config, run.metrics))
        else:
            print(
                f"{run.config.title} on {run.config.dataset}: nothing was held out, so there is no"
                " score; --test-domain each estimates the score at a new domain"
            )
        if scored := scored_weights(run.metrics):
            print(f"scored: {scored}")
        print(f"{counted(run.step, 'step')} in {run.seconds:.1f} s; the run is in {run.folder}")
    if not settings.as_json and (members := members_table(runs)) is not None:
        Console().print(members)
    exit_unless_finished(runs, each=one_per_domain)


def exit_unless_finished(runs: tuple[TrainedRun, ...], *, each: bool) -> None:
    """Print what went wrong and exit with a nonzero code, unless all runs finished."""
    if runs[-1].status == "stopped":
        click.echo(
            f"Interrupted after step {runs[-1].step}. Run the same command again to resume.",
            err=True,
        )
        raise click.exceptions.Exit(130)
    diverged = [run for run in runs if run.status == "diverged"]
    for run in diverged:
        where = f" without {run.config.test_domains[0]}" if each else ""
        click.echo(
            f"diverged{where}: the loss of step {run.step} is not finite; try a smaller lr",
            err=True,
        )
    if diverged:
        raise click.exceptions.Exit(1)
