"""Algorithms and their hyper-parameters, for the terminal."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from shiftproof.core.space import HparamSpec, specs
from shiftproof.learners.base import Learner
from shiftproof.models import MODELS


def algorithm_table(algorithms: Mapping[str, type[Learner]]) -> Table:
    """Return one row per algorithm: its family, paper and hyper-parameters."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("family", no_wrap=True)
    table.add_column("paper, and hyper-parameters of its own")
    from shiftproof.learners.algorithms import Algorithm

    common = set(specs(Algorithm.Hparams))
    for name, algorithm in algorithms.items():
        own = [key for key in specs(algorithm.Hparams) if key not in common]
        details = Text(algorithm.paper)
        if own:
            details.append("\n" + ", ".join(own), style="dim")
        table.add_row(Text(name, style="bold"), algorithm.family, details)
    return table


def algorithm_description(name: str, algorithm: type[Learner]) -> Iterator[RenderableType]:
    """Yield an algorithm's maths and hyper-parameters, and those of the networks it can train."""
    yield Text(f"{name} ({algorithm.family}), {algorithm.paper}", style="bold")
    yield from paragraphs(algorithm)
    yield hparam_table(specs(algorithm.Hparams))
    if not algorithm.exact:
        yield from network_hparams()


def network_hparams() -> Iterator[RenderableType]:
    """Yield the hyper-parameters of every network, once for networks that share them."""
    alike: dict[str, tuple[list[str], Mapping[str, HparamSpec]]] = {}
    for name, network in MODELS.items():
        declared = specs(network)
        alike.setdefault(repr(declared), ([], declared))[0].append(name)
    for names, shared in alike.values():
        if shared:
            yield Text(f"Hyper-parameters of the network ({', '.join(names)})", style="bold")
            yield hparam_table(shared)


def paragraphs(documented: type) -> Iterator[RenderableType]:
    """Yield a docstring for the terminal: prose to be re-wrapped, formulas and lists unchanged."""
    for block in (inspect.getdoc(documented) or "").split("\n\n"):
        plain = re.sub(r":\w+:`~?([^`]+)`", r"\1", block)
        if block.startswith("|"):
            yield markdown_table(plain)
        elif block.startswith((" ", "=", "1. ", "- ")):
            # Spaces as wide as the removed backticks keep columns aligned.
            yield Text("\n" + re.sub(r"``(.*?)``", r"\1    ", plain))
        else:
            yield Text("\n" + " ".join(plain.replace("``", "").split()))


def markdown_table(block: str) -> Table:
    """Return a table written in Markdown: a header, a line of dashes, and rows."""
    header, _, *rows = ([*map(str.strip, row.strip("|").split("|"))] for row in block.splitlines())
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in header:
        table.add_column(Text(name))
    for row in rows:
        table.add_row(*map(Text, row))
    return table


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
