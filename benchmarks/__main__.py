"""`python -m benchmarks [NAME …] [--json] [--out FILE.md]`: measure on an idle machine."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.decoding import decoding
from benchmarks.figure import Figure
from benchmarks.growth import growth, overhead, startup
from benchmarks.linear import linear
from benchmarks.lite_runs import lite_runs
from benchmarks.many_runs import report_of_many
from benchmarks.matching import matcher, penalty, step, table1
from benchmarks.protocol import run
from benchmarks.report import NEW_PAGE, figures_table, measured_part
from benchmarks.table_costs import held_out_domains, table_growth, table_peers
from benchmarks.waiting import diagnosis, start
from shiftproof.core.errors import InvalidValue, ShiftproofError, UnknownName
from shiftproof.paper.measure import machine
from tools.marked_sections import MARKED, renewed

BENCHMARKS: dict[str, Callable[[], Iterator[Figure]]] = {
    "step": step,
    "penalty": penalty,
    "matcher": matcher,
    "table1": table1,
    "linear": linear,
    "run": run,
    "growth": growth,
    "overhead": overhead,
    "startup": startup,
    "decoding": decoding,
    "report": report_of_many,
    "start": start,
    "diagnosis": diagnosis,
    "lite": lite_runs,
    "table-peers": table_peers,
    "table-domains": held_out_domains,
    "table-growth": table_growth,
}
# `make bench-tables`
TABLES = ("table-peers", "table-domains", "table-growth")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the requested benchmarks; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", help=f"some of {', '.join(BENCHMARKS)}; default: all but the table-…"
    )
    parser.add_argument("--json", action="store_true", help="print the ratios as JSON")
    parser.add_argument("--out", type=Path, help="Markdown file to renew as well")
    asked = parser.parse_args(arguments)
    try:
        _measure(
            asked.names or [name for name in BENCHMARKS if name not in TABLES],
            asked.out,
            as_json=asked.json,
        )
    except ShiftproofError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _measure(names: Sequence[str], out: Path | None, *, as_json: bool) -> None:
    for name in names:
        if name not in BENCHMARKS:
            raise UnknownName("benchmark", name, BENCHMARKS)
    if out is not None and out.suffix != ".md":
        raise InvalidValue(f"--out must end in .md, not {out.name!r}")
    page = NEW_PAGE if out is None or not out.exists() else out.read_text("utf-8")
    if not MARKED.search(page):
        raise InvalidValue(f"{out} has no part <!-- measured --> to renew; name another file")
    figures = []
    for name in dict.fromkeys(names):
        with Console(stderr=True).status(f"measuring {name}"):
            figures += list(BENCHMARKS[name]())
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(renewed(page, lambda _: measured_part(figures, machine())), "utf-8")
    if as_json:
        found = {"machine": machine(), "figures": [figure.to_json() for figure in figures]}
        print(json.dumps(found, ensure_ascii=False))
    else:
        Console().print(figures_table(figures))


if __name__ == "__main__":
    sys.exit(main())
