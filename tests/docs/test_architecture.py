"""The page on the architecture is true: its files exist, its table has the layers of the test."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/shiftproof"
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
LAYERS = runpy.run_path(str(ROOT / "tests/test_layers.py"))["LAYERS"]
# Not in the table: the entry of `python -m shiftproof`, and what may import everything.
NOT_LISTED = {"__main__", "testing"}


def walk(title: str) -> list[str]:
    """Return the files of a walk in order: the first in each item of the section's list."""
    section = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    items = re.findall(r"^\d+\. .*?(?=^\d+\. |^\S|\Z)", section, re.MULTILINE | re.DOTALL)
    return [re.findall(r"`([\w/]+\.py)`", item)[0] for item in items]


@pytest.mark.parametrize("title", ["From a CSV row to the page", "One step of IDM"])
def test_a_walk_passes_files_that_exist_and_none_twice(title: str) -> None:
    files = walk(title)
    assert len(files) >= 6
    assert [name for name in files if not (SOURCE / name).is_file()] == []
    assert len(set(files)) == len(files)


def test_the_items_are_numbered_in_order() -> None:
    for section in PAGE.split("\n## "):
        numbers = [int(number) for number in re.findall(r"^(\d+)\. ", section, re.MULTILINE)]
        assert numbers == list(range(1, len(numbers) + 1))


def test_the_table_has_the_layers_from_top_to_bottom() -> None:
    rows = re.findall(r"^\| ([\w ·]+) \|", PAGE.partition("|---|")[2], re.MULTILINE)
    listed = [set(row.split(" · ")) for row in rows]
    assert listed == [row - NOT_LISTED for row in LAYERS if row - NOT_LISTED]
