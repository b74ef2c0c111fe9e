"""The tables and the picture of results/lite-trials.md are what its records say."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tools.lite_trials_page import PAGE, PICTURE, SELECTORS, part, recorded
from tools.marked_sections import MARKED, renewed


@pytest.fixture(scope="module")
def found():
    return recorded()


def test_the_page_has_the_tables_of_its_records(found):
    page = PAGE.read_text("utf-8")
    assert [match["name"] for match in MARKED.finditer(page)] == list(SELECTORS)
    for selector in SELECTORS:
        # Datasets, averages, ranks, and against ERM.
        assert part(found, selector).count("### ") == 4 + 1 + 1 + 1
    assert renewed(page, lambda name: part(found, name)) == page


def test_the_ranks_in_the_picture_are_those_of_the_records(found):
    def texts(picture):
        # Where they are is the business of matplotlib's version.
        return [e.text for e in ElementTree.fromstring(picture).iter() if e.tag.endswith("}text")]

    assert len(texts(found.rank_picture())) > 2 * 8
    assert texts(found.rank_picture()) == texts(PICTURE.read_text("utf-8"))
