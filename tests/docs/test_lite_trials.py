"""The tables and the picture of results/lite-trials.md and lite-later.md match their records."""

from __future__ import annotations

from functools import cache
from xml.etree import ElementTree

import pytest
from _internals import Report

from tools.lite_trials_page import PAGES, PICTURE, SELECTORS, page_of, part, recorded
from tools.marked_sections import MARKED, renewed


@cache
def report_of(name: str) -> Report:
    return recorded(name)


@pytest.mark.parametrize("name", PAGES)
def test_the_page_has_the_tables_of_its_records(name):
    found, page = report_of(name), page_of(name).read_text("utf-8")
    assert [match["name"] for match in MARKED.finditer(page)] == list(SELECTORS)
    for selector in SELECTORS:
        # Datasets, averages, ranks, and against ERM.
        assert part(found, selector).count("### ") == 4 + 1 + 1 + 1
    assert renewed(page, lambda selector: part(found, selector)) == page


def test_the_ranks_in_the_picture_are_those_of_the_records():
    def texts(picture):
        # Where they are is the business of matplotlib's version.
        return [e.text for e in ElementTree.fromstring(picture).iter() if e.tag.endswith("}text")]

    picture = report_of("lite-trials").rank_picture()
    assert len(texts(picture)) > 2 * 8
    assert texts(picture) == texts(PICTURE.read_text("utf-8"))
