"""Write the tables and the picture of results/lite-trials.md from its records.

python -m tools.lite_trials_page
"""

from __future__ import annotations

from pathlib import Path

from shiftproof import report
from shiftproof.api.report import Report
from shiftproof.reporting.renderers.markdown import as_markdown
from shiftproof.reporting.table import Table
from tools.marked_sections import renewed

RESULTS = Path(__file__).parents[1] / "results"
PAGE, RECORDS = RESULTS / "lite-trials.md", RESULTS / "lite-trials.jsonl.gz"
PICTURE = RESULTS / "lite-trials-ranks.svg"
# For each part of the page, the end of the titles of its tables.
SELECTORS = {"training-domain": "training-domain validation set", "oracle": "(oracle)"}


def recorded() -> Report:
    """Return the report of the recorded runs."""
    return report(RECORDS, selection=tuple(SELECTORS))


def part(found: Report, selector: str) -> str:
    """Return the tables of one selector; the page has a heading for it."""
    own = [table for table in found.tables if table.title.endswith(SELECTORS[selector])]
    return "\n".join(map(_with_short_heading, own))


def _with_short_heading(table: Table) -> str:
    heading, _, rest = as_markdown(table).partition("\n")
    return f"{heading.partition(', model selection method')[0]}\n{rest}"


if __name__ == "__main__":
    found = recorded()
    page = renewed(PAGE.read_text("utf-8"), lambda name: part(found, name))
    PAGE.write_text(page, "utf-8")
    PICTURE.write_text(found.rank_picture(), "utf-8")
