"""``shiftproof report``: a sweep's tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shiftproof.errors import InvalidValue, UnknownName

EXAMPLE = "Example: [bold]shiftproof report runs/sweep --format latex --out table.tex[/]"
# Not tables: the runs themselves, in a folder as DomainBed's or in one compressed file of ours.
RUNS = ("domainbed", "records")
# In the order of DomainBed's tables; others follow.
SELECTIONS = ("training-domain", "leave-one-domain-out", "oracle")


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(
            help="Folder of a sweep, ours or DomainBed's, or a file of records; several are put"
            " together."
        ),
    ],
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            help="Of the tables: text, markdown, latex or csv; of the runs themselves: domainbed (a"
            " folder as DomainBed's) or records (one file).",
        ),
    ] = "text",
    selection: Annotated[
        str | None,
        typer.Option(
            help="How to choose among runs and steps, separated by commas; by default every way"
            " that these runs allow."
        ),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="Whom to compare with; erm if it is there.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write to this file.")] = None,
    as_domainbed: Annotated[
        bool,
        typer.Option(
            "--as-domainbed",
            help="Select among runs that diverged or have not ended too, as DomainBed's tool does.",
        ),
    ] = False,
) -> None:
    """Print the tables of a sweep: accuracies, ranks, and tests against a baseline."""
    from dataclasses import replace

    from shiftproof.benchmark.aggregate import aggregate
    from shiftproof.benchmark.domainbed_runs import in_table_order, write_domainbed_runs
    from shiftproof.benchmark.packed import pack_runs
    from shiftproof.benchmark.results import checked, read_sweep
    from shiftproof.benchmark.selection import SELECTORS
    from shiftproof.report.benchmark import FORMATS
    from shiftproof.training.checkpoint import write_atomically

    if format_ == "html":
        raise InvalidValue("--format html is not there yet; use markdown, latex, text or csv")
    if format_ not in (*FORMATS, *RUNS):
        raise UnknownName("format", format_, [*FORMATS, *RUNS])
    if format_ in RUNS and out is None:
        raise InvalidValue(f"--format {format_} writes runs: --out must say where")
    asked = in_table_order(SELECTORS, SELECTIONS) if selection is None else selection.split(",")
    selectors = [SELECTORS.get(name.strip())() for name in asked]
    outcomes = checked(outcome for folder in folders for outcome in read_sweep(folder))
    if as_domainbed:
        outcomes = [replace(o, status="finished") if o.evaluations else o for o in outcomes]
    algorithms = {outcome.algorithm for outcome in outcomes}
    if baseline is not None and baseline not in algorithms:
        raise UnknownName("baseline of this sweep", baseline, sorted(algorithms))
    if out is not None and format_ == "domainbed":
        count = write_domainbed_runs(outcomes, out)
        print(f"{out}: {count} of {len(outcomes)} runs, those that have finished")
        return
    if out is not None and format_ == "records":
        print(f"{out}: {pack_runs(outcomes, out)} runs")
        return
    results = [aggregate(outcomes, selector) for selector in selectors]
    if selection is None:
        results = [found for found in results if found.has_numbers] or results
    records = sum(len(outcome.evaluations) for outcome in outcomes)
    text = FORMATS[format_](results, records, baseline or "erm")
    if out is None:
        print(text, end="")
    else:
        write_atomically(out, text.encode())
        print(out)
