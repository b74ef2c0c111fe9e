"""``shiftproof bench``: speed and memory of this machine, as ratios."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from shiftproof.core.errors import InvalidValue, UnknownName

EXAMPLE = "Example: [bold]shiftproof bench penalty[/]"


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Some of step, penalty, estimate, table1, run, growth, overhead, startup, many;"
            " or all."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Markdown file to write the figures into, too.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The figures for programs.")] = False,
) -> None:
    """Measure what matching, runs and sweeps cost here; let nothing else run meanwhile."""
    from rich.console import Console

    quieten_profiler()
    from shiftproof.bench import BENCHES, machine
    from shiftproof.core.files import write_atomically
    from shiftproof.report.performance import figures_table, performance_page

    chosen = names or list(BENCHES)
    for name in chosen:
        if name not in BENCHES:
            raise UnknownName("benchmark", name, BENCHES)
    if out is not None and out.suffix != ".md":
        raise InvalidValue(f"--out must end in .md, not {out.name!r}")
    console = Console(stderr=True)
    figures = []
    for name in dict.fromkeys(chosen):
        with console.status(f"measuring {name}"):
            figures += list(BENCHES[name]())
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out, performance_page(figures, machine()).encode())
    if as_json:
        found = {"machine": machine(), "figures": [figure.to_json() for figure in figures]}
        print(json.dumps(found, ensure_ascii=False))
    else:
        Console().print(figures_table(figures))


def quieten_profiler() -> None:
    """Keep torch's profiler from telling of itself; to be called before torch is imported."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
