"""The tables of docs/reproduction.md are what the records under results/ say."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("tables", ROOT / "tools" / "reproduced_tables.py")
tables = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tables)
PAGE = tables.PAGE.read_text("utf-8")
NAMES = [match["name"] for match in tables.MARKED.finditer(PAGE)]


def test_the_page_has_every_table_once():
    assert sorted(NAMES) == sorted([*tables.SOURCES, "running-time"])


@pytest.mark.parametrize("name", NAMES)
def test_a_table_is_that_of_the_records(name):
    (shown,) = [m[0] for m in tables.MARKED.finditer(PAGE) if m["name"] == name]
    assert shown == f"<!-- {name} -->\n\n{tables.table_named(name)}\n\n<!-- /{name} -->"


def test_a_changed_number_would_be_noticed():
    name = "table1"
    wrong = PAGE.replace("86.4 ± 0.2", "86.5 ± 0.2")
    assert wrong != PAGE
    assert tables.renewed(wrong) == PAGE
    assert tables.table_named(name) in PAGE
