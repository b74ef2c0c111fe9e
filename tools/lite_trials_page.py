"""Write the tables of results/lite-trials.md and lite-later.md, and the picture of the first.

python -m tools.lite_trials_page
"""

from __future__ import annotations

from pathlib import Path

from shiftproof import report
from shiftproof.api.report import Report
from shiftproof.reporting.formats import as_markdown
from shiftproof.reporting.table import Table
from tools.marked_sections import renewed

RESULTS = Path(__file__).parents[1] / "results"
# Each page has its records next to it: NAME.md and NAME.jsonl.gz.
PAGES = ("lite-trials", "lite-later")
PICTURE = RESULTS / "lite-trials-ranks.svg"
# For each part of a page, the end of the titles of its tables.
SELECTORS = {"training-domain": "training-domain validation set", "oracle": "(oracle)"}


def page_of(name: str) -> Path:
    """Return the path of a page."""
    return RESULTS / f"{name}.md"


def recorded(name: str) -> Report:
    """Return the report of the recorded runs of a page."""
    return report(RESULTS / f"{name}.jsonl.gz", selection=tuple(SELECTORS))


def part(found: Report, selector: str) -> str:
    """Return the tables of one selector; the page has a heading for it."""
    own = [table for table in found.tables if table.title.endswith(SELECTORS[selector])]
    return "\n".join(map(_with_short_heading, own))


def _with_short_heading(table: Table) -> str:
    heading, _, rest = as_markdown(table).partition("\n")
    return f"{heading.partition(', model selection method')[0]}\n{rest}"


def _renew(name: str) -> Report:
    found, path = recorded(name), page_of(name)
    path.write_text(renewed(path.read_text("utf-8"), lambda part_: part(found, part_)), "utf-8")
    return found


if __name__ == "__main__":
    reports = {name: _renew(name) for name in PAGES}
    PICTURE.write_text(reports["lite-trials"].rank_picture(), "utf-8")
