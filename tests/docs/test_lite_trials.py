"""The tables of results/lite-trials.md are what its records say."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from shiftproof import report
from shiftproof.reporting.renderers.markdown import as_markdown

RESULTS = Path(__file__).parents[2] / "results"
SELECTORS = ("training-domain", "oracle")


@pytest.fixture(scope="module")
def recorded():
    return report(RESULTS / "lite-trials.jsonl.gz", selection=SELECTORS)


def test_every_table_is_on_the_page(recorded):
    page = (RESULTS / "lite-trials.md").read_text("utf-8")
    shown = [table for table in recorded.tables if not table.title.startswith("Ranking")]
    assert len(shown) == 2 * (4 + 1 + 1)  # datasets, averages, and against ERM
    for table in shown:
        _, body = as_markdown(table).split("\n", 1)
        assert body.strip() in page, table.title


def test_the_ranks_in_the_picture_are_those_of_the_records(recorded):
    def texts(picture):
        # Where they are is the business of matplotlib's version.
        return [e.text for e in ElementTree.fromstring(picture).iter() if e.tag.endswith("}text")]

    assert len(texts(recorded.rank_picture())) > 2 * 8
    stored = (RESULTS / "lite-trials-ranks.svg").read_text("utf-8")
    assert texts(recorded.rank_picture()) == texts(stored)
