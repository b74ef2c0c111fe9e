"""Tables for the terminal."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from shiftproof.core.space import HparamSpec, specs
from shiftproof.data import DomainDataset
from shiftproof.data.splits import split_domain
from shiftproof.learners.algorithms import Algorithm
from shiftproof.training.config import RunConfig
from shiftproof.training.records import Record


def accuracy_table(config: RunConfig, record: Record) -> Table:
    """Return the accuracy and risk of each evaluated set at one record."""
    table = Table(
        title=f"{config.algorithm} on {config.dataset} after step {record['step']}",
        caption=f"one run, seed {config.seed}, last step (no model selection)",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("domain")
    table.add_column("role")
    table.add_column("part")
    table.add_column("accuracy", justify="right")
    table.add_column("risk", justify="right")
    for name, accuracy in record["accuracy"].items():
        domain, _, part = name.rpartition("/")
        role = "extra" if not domain else "test" if domain in config.test_domains else "training"
        table.add_row(
            domain or name,
            role,
            part if domain else "all",
            f"{100 * accuracy:.1f}%",
            f"{record['risk'][name]:.3f}",
            style="bold" if role == "test" else "",
        )
    return table


def leave_one_out_table(runs: Sequence[tuple[RunConfig, Record]], dataset: DomainDataset) -> Table:
    """Return one row a held-out domain: accuracy there and on the domains trained on.

    A held-out domain's accuracy is over all of its samples that were evaluated; beside it, what
    always naming the domain's commonest class would give.  The accuracy of the training domains is
    the mean over domains of their held-out parts.
    """
    config = runs[0][0]
    table = Table(
        title=f"{config.algorithm} on {config.dataset}, each domain held out in turn",
        caption=f"One run each, seed {config.seed}, last step (no model selection)."
        " Commonest class: what always naming it would give there. Training domains: mean of the"
        " parts of them that were not trained on.",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("held out")
    for name in ("samples", "accuracy there", "commonest class", "training domains"):
        table.add_column(name, justify="right")
    unseen, seen = [], []
    for config, record in runs:
        (held_out,) = config.test_domains
        count, accuracy = held_out_accuracy(config, record, dataset)
        within = [
            value
            for name, value in record["accuracy"].items()
            if name.endswith("/out") and name.rpartition("/")[0] != held_out
        ]
        unseen.append(accuracy)
        seen.append(fmean(within) if within else math.nan)
        labels = dataset.domains[dataset.index_of(held_out)].y
        common = labels.bincount().max().item() / len(labels)
        numbers = map(_percent, (accuracy, common, seen[-1]))
        table.add_row(Text(held_out), f"{count:,}", *numbers)
    table.add_section()
    table.add_row("mean", "", _percent(fmean(unseen)), "", _percent(fmean(seen)), style="bold")
    table.add_row("worst", "", _percent(min(unseen)), "", _percent(min(seen)))
    return table


def dataset_summary(dataset: DomainDataset) -> str:
    """Say in a line what was understood of the data."""
    domains = _some([f"{domain.name} {len(domain):,}" for domain in dataset.domains])
    columns = dataset.input_shape[0]
    inputs = f"{columns} columns" if len(dataset.input_shape) == 1 else "images"
    if dataset.frozen:
        inputs = f"{columns} features of {dataset.frozen['backbone']}"
    elif len(dataset.input_shape) == 3:
        inputs = f"images of {' × '.join(map(str, dataset.input_shape))}"
    return (
        f"{len(dataset.domains)} domains ({domains}), {len(dataset.classes)} classes"
        f" ({_some(dataset.classes)}), {inputs}"
    )


def _some(names: Sequence[str], shown: int = 6) -> str:
    return ", ".join(names[:shown]) + (", …" if len(names) > shown else "")


def held_out_accuracy(
    config: RunConfig, record: Record, dataset: DomainDataset
) -> tuple[int, float]:
    """Return how many samples of the held-out domain were evaluated, and the share right."""
    (held_out,) = config.test_domains
    position = dataset.index_of(held_out)
    size = len(dataset.domains[position])
    split = split_domain(size, config.holdout, config.data_seed, position)
    counts = {f"{held_out}/in": len(split.in_), f"{held_out}/out": len(split.out)}
    evaluated = {name: n for name, n in counts.items() if name in record["accuracy"]}
    total = sum(evaluated.values())
    right = sum(n * record["accuracy"][name] for name, n in evaluated.items())
    return total, right / total if total else math.nan


def _percent(share: float) -> str:
    return "–" if math.isnan(share) else f"{100 * share:.1f}%"


def algorithm_table(algorithms: Mapping[str, type[Algorithm]]) -> Table:
    """Return one row an algorithm: its family, paper and hyper-parameters."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("family", no_wrap=True)
    table.add_column("paper, and hyper-parameters of its own")
    common = set(specs(Algorithm.Hparams))
    for name, algorithm in algorithms.items():
        own = [key for key in specs(algorithm.Hparams) if key not in common]
        details = Text(algorithm.paper)
        if own:
            details.append("\n" + ", ".join(own), style="dim")
        table.add_row(Text(name, style="bold"), algorithm.family, details)
    return table


def algorithm_description(name: str, algorithm: type[Algorithm]) -> Iterator[RenderableType]:
    """Yield an algorithm's maths and hyper-parameters."""
    yield Text(f"{name} ({algorithm.family}), {algorithm.paper}", style="bold")
    yield from paragraphs(algorithm)
    yield hparam_table(specs(algorithm.Hparams))


def paragraphs(documented: type) -> Iterator[Text]:
    """Yield a docstring for the terminal: prose to be wrapped anew, formulas and tables as set."""
    for block in (inspect.getdoc(documented) or "").split("\n\n"):
        plain = re.sub(r":\w+:`~?([^`]+)`", r"\1", block)
        if block.startswith((" ", "=", "1. ", "- ")):
            # Columns stay in line if what takes the place of a word is as wide.
            yield Text("\n" + re.sub(r"``(.*?)``", r"\1    ", plain))
        else:
            yield Text("\n" + " ".join(plain.replace("``", "").split()))


def hparam_table(declared: Mapping[str, HparamSpec]) -> Table:
    """Return each hyper-parameter's default, distribution and meaning."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("name", no_wrap=True)
    for name in ("default", "drawn from", "meaning"):
        table.add_column(name)
    for name, spec in declared.items():
        settings = {"": spec.setting, **{f" ({r})": s for r, s in spec.regimes.items()}}
        table.add_row(
            Text(name, style="bold"),
            Text("\n".join(f"{s.default}{where}" for where, s in settings.items())),
            Text("\n".join(str(s.distribution or "fixed") for s in settings.values())),
            Text(spec.help),
        )
    return table
