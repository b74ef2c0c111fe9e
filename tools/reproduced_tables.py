"""Write the tables of results/reproduction.md from the records under results/.

python -m tools.reproduced_tables
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from shiftproof.paper.comparison import Comparison
from shiftproof.paper.reproduce import STUDIES
from shiftproof.paper.running_time import compare_timings, read_timing
from shiftproof.paper.studies import Choice
from shiftproof.reporting.formats import as_markdown
from shiftproof.reporting.paper_tables import comparison_table
from shiftproof.sweeps.read_runs import read_sweep
from tools.marked_sections import renewed

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "results" / "reproduction.md"
RESULTS = ROOT / "results"
STAND_INS = {"pacs": "pacs-sample", "office-home": "office-caltech10"}


class Source(NamedTuple):
    """Where a table comes from: a study, its records, and how they were made."""

    study: str
    records: str
    choice: Choice
    table: str


SOURCES = {
    "table1": Source("table1", "table1.jsonl.gz", Choice(), "table1"),
    **{
        name: Source("table2", "domainbed-mnist.jsonl.gz", Choice(), f"detail-{name}")
        for name in ("colored-mnist", "rotated-mnist")
    },
    "table2-lite": Source("table2", "lite.jsonl.gz", Choice("lite", data=STAND_INS), "table2"),
    **{
        name: Source(study, "ablations-lite.jsonl.gz", Choice("lite", data=data), name)
        for name, study, data in (
            ("ablation-components-colored-mnist", "ablation-components", {}),
            (
                "ablation-components-office-home",
                "ablation-components",
                {"office-home": STAND_INS["office-home"]},
            ),
            ("ablation-gradient-pacs", "ablation-gradient", {"pacs": STAND_INS["pacs"]}),
            ("ablation-representation", "ablation-representation", {}),
            ("ablation-pdm", "ablation-pdm", {}),
        )
    },
}


def found(source: Source) -> Comparison:
    """Return the table of a source from its records."""
    runs = read_sweep(RESULTS / source.records)
    tables = STUDIES[source.study]().find(runs, source.choice).comparisons
    table = next(table for table in tables if table.name == source.table)
    # Only the rows that have been run.
    rows = tuple(row for row in table.rows if any(cell.ours for cell in row.cells))
    return replace(table, rows=rows)


def table_named(name: str) -> str:
    """Return a table of the page in Markdown, without its heading, which is in the page."""
    if name == "running-time":
        paths = sorted((RESULTS / "running-time").glob("*.json"))
        table = compare_timings([read_timing(path) for path in paths])
    else:
        table = found(SOURCES[name])
    return as_markdown(comparison_table(table)).partition("\n\n")[2]


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text("utf-8"), table_named), "utf-8")
