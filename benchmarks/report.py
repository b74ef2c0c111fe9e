"""The figures of the benchmarks as a table: for a terminal, and for `results/performance.md`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from benchmarks.figure import Figure


def figures_table(figures: Sequence[Figure]) -> Table:
    """Return the figures with their targets."""
    table = Table("figure", "what", box=None)
    for name in ("measured", "target", ""):
        table.add_column(name, justify="right")
    for figure in figures:
        table.add_row(figure.name, figure.what, *_cells(figure))
    return table


# A page without figures.
NEW_PAGE = "# Performance\n\n<!-- measured -->\n<!-- /measured -->\n"


def measured_part(figures: Sequence[Figure], machine: Mapping[str, Any]) -> str:
    """Return the figures and their measurements as Markdown, for a part of the page."""
    lines = [
        "Written by `make bench` on an otherwise idle machine. A ratio is the median over rounds",
        "in which both sides took turns within one process.",
        "",
        ", ".join(f"{name}: {value}" for name, value in machine.items()) + ".",
        "",
        "| figure | what | measured | target | |",
        "|---|---|--:|--:|---|",
    ]
    lines += [f"| {f.name} | {f.what} | {' | '.join(_cells(f))} |" for f in figures]
    lines += ["", "## Measurements", ""]
    lines += [f"- **{f.name}**: {_details(f.details)}" for f in figures if f.details]
    return "\n".join(lines) + "\n"


def _cells(figure: Figure) -> tuple[str, str, str]:
    verdict = "reached" if figure.reached else "not reached"
    return _number(figure.value), f"{figure.bound} {_number(figure.target)}", verdict


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _details(details: Mapping[str, Any]) -> str:
    def shown(value: Any) -> str:
        if isinstance(value, Mapping):
            return ", ".join(f"{name} {shown(item)}" for name, item in value.items())
        if isinstance(value, list):
            return ", ".join(map(shown, value))
        if isinstance(value, int):
            return f"{value:,}"
        return _number(value) if isinstance(value, float) else str(value)

    return "; ".join(f"{name}: {shown(value)}" for name, value in details.items())
