"""Tables for the terminal."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from shiftproof.algorithms import Algorithm
from shiftproof.data import DatasetSource
from shiftproof.space import HparamSpec, specs
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
    yield from _paragraphs(algorithm)
    yield hparam_table(specs(algorithm.Hparams))


def _paragraphs(documented: type) -> Iterator[Text]:
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


def dataset_table(datasets: Mapping[str, type[DatasetSource]]) -> Table:
    """Return one row a dataset."""
    table = Table("name", "domains", "classes", "samples", "what it is", box=box.SIMPLE_HEAD)
    for name, source in datasets.items():
        card = source.card
        table.add_row(
            Text(name, style="bold"),
            ", ".join(card.counts),
            str(len(card.classes)),
            f"{sum(card.counts.values()):,}",
            card.summary,
        )
    return table


def dataset_description(name: str, source: type[DatasetSource]) -> Iterator[RenderableType]:
    """Yield a dataset's card and options."""
    card = source.card
    yield Text(f"{name}: {card.summary}", style="bold")
    yield from _paragraphs(source)
    table = Table(show_header=False)
    domains = ", ".join(f"{domain} ({count:,})" for domain, count in card.counts.items())
    for key, value in [
        ("domains", domains),
        ("classes", ", ".join(card.classes)),
        ("input", " × ".join(map(str, card.input_shape))),
        ("regime", card.regime),
        ("backbone", card.backbone),
        ("evaluated every", f"{card.eval_every} steps"),
        ("publication", card.publication),
        ("licence", card.licence),
    ]:
        table.add_row(key, Text(value))
    yield table
    if options := specs(source):
        yield hparam_table(options)
