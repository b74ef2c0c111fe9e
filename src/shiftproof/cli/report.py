"""``shiftproof report``: the tables of a sweep or of runs, or a page of them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftproof.core.errors import DataError, InvalidValue, UnknownName

if TYPE_CHECKING:
    from shiftproof.sweeps.aggregate import SelectionResults
    from shiftproof.sweeps.results import RunOutcome
    from shiftproof.sweeps.selection import Selector

EXAMPLE = "Example: [bold]shiftproof report runs/sweep --format html --out results.html[/]"
PAGE = "html"
# Not tables: the runs themselves, in a folder as DomainBed's or in one compressed file of ours.
RUNS = ("domainbed", "records")
# In the order of DomainBed's tables; others follow.
SELECTIONS = ("training-domain", "leave-one-domain-out", "oracle")
BEST_MINIMUM = "best-minimum"


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(
            help="Folder of a sweep, ours or DomainBed's, or of runs of [bold]shiftproof train[/],"
            " or a file of records; several are put together."
        ),
    ],
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            help="Of the tables: text, markdown, latex or csv; chosen lists the run, step and"
            " hyper-parameters behind each number; html is one page with tables, charts and"
            " settings; of the runs themselves: domainbed (a folder as DomainBed's) or records (one"
            " file).",
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
    out: Annotated[
        Path | None,
        typer.Option(help="Write to this file; html goes to report.html in the folder by default."),
    ] = None,
    as_domainbed: Annotated[
        bool,
        typer.Option(
            "--as-domainbed",
            help="Select among runs that diverged or have not ended too, as DomainBed's tool does.",
        ),
    ] = False,
) -> None:
    """Print the tables of a sweep: accuracies, ranks, and tests against a baseline; or a page."""
    from dataclasses import replace

    from shiftproof.core.files import write_atomically
    from shiftproof.report.benchmark import FORMATS
    from shiftproof.sweeps.aggregate import aggregate
    from shiftproof.sweeps.domainbed.logs import write_domainbed_runs
    from shiftproof.sweeps.results import read_sweep
    from shiftproof.sweeps.run_archive import pack_runs
    from shiftproof.sweeps.standalone_runs import runs_to_compare

    if format_ not in (*FORMATS, *RUNS, PAGE):
        raise UnknownName("format", format_, [*FORMATS, *RUNS, PAGE])
    if format_ in RUNS and out is None:
        raise InvalidValue(f"--format {format_} writes runs: --out must say where")
    outcomes = read_sweep(*folders)
    alone = all(outcome.alone for outcome in outcomes)
    selectors = _selectors(selection, alone=alone)
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
    expected = runs_to_compare(outcomes) if alone else None
    results = [aggregate(outcomes, selector, expected) for selector in selectors]
    if selection is None:
        results = [found for found in results if found.has_numbers] or results
        # For runs that allow no other choice; beside others it would look like one of them.
        honest = [found for found in results if found.selector.name != BEST_MINIMUM]
        results = honest or results
    if format_ == PAGE:
        _write_page(folders, outcomes, results, baseline or "erm", out)
        return
    records = sum(len(outcome.evaluations) for outcome in outcomes)
    text = FORMATS[format_](results, records, baseline or "erm")
    if out is None:
        print(text, end="")
    else:
        write_atomically(out, text.encode())
        print(out)


def _selectors(selection: str | None, *, alone: bool) -> list[Selector]:
    """Return the ways to choose that were asked for, or all that make sense."""
    from shiftproof.sweeps.domainbed.logs import in_table_order
    from shiftproof.sweeps.selection import SELECTORS
    from shiftproof.sweeps.standalone_runs import LastStep

    known: dict[str, type[Selector]] = dict(SELECTORS.items())
    everything = list(in_table_order(known, SELECTIONS))
    if alone:
        known = {LastStep.name: LastStep, **known}
        # With one run each there is nothing for the oracle to choose: it is the last step as well.
        everything = [LastStep.name, *(name for name in everything if name != "oracle")]
    asked = everything if selection is None else [name.strip() for name in selection.split(",")]
    for name in asked:
        if name not in known:
            raise UnknownName("selection", name, known)
    return [known[name]() for name in asked]


def _write_page(
    folders: Sequence[Path],
    outcomes: Sequence[RunOutcome],
    results: Sequence[SelectionResults],
    baseline: str,
    out: Path | None,
) -> None:
    from shiftproof.core.files import write_atomically
    from shiftproof.report.diagnosis import read_diagnosis
    from shiftproof.report.page import Source, results_page
    from shiftproof.sweeps.results import read_object

    first = folders[0]
    path = out or (first / "report.html" if first.is_dir() else _beside(first))
    if not path.parent.is_dir():
        raise DataError(f"there is no folder {path.parent} to put the page in")
    sweeps: list[dict[str, Any]] = []
    diagnoses = []
    for folder in folders:
        if (folder / "sweep.json").is_file():
            sweeps.append(read_object(folder / "sweep.json", ()))
        diagnoses += [read_diagnosis(found) for found in sorted(folder.rglob("diagnosis.json"))]
    command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    source = Source([str(folder) for folder in folders], command, sweeps, diagnoses)
    write_atomically(path, results_page(outcomes, results, baseline, source).encode())
    print(path)


def _beside(file: Path) -> Path:
    """Return the page's name for a file of runs: the file's own without its endings."""
    return file.with_name(file.name.removesuffix(".gz").removesuffix(".jsonl") + ".html")
