"""The tests that `docs/files.md` names exist."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "files.md").read_text("utf-8")
ROWS = [
    line
    for line in PAGE.partition("## Faults and attacks")[2].splitlines()
    if re.match(r"\| (?!attack|-)", line)
]


def missing(row: str) -> list[str]:
    """Return the files in the last cell of a row that do not exist, or the cell if it has none."""
    cell = row.rstrip(" |").rpartition("|")[2]
    files = re.findall(r"`([^`]+)`", cell)
    return [file for file in files if not (TESTS / file).is_file()] if files else [cell]


def test_every_row_names_tests_that_exist() -> None:
    assert len(ROWS) > 15
    assert [absent for row in ROWS for absent in missing(row)] == []


def test_a_name_that_does_not_exist_is_noticed() -> None:
    assert missing("| a | b | `test_none.py`, `test_faults.py` |") == ["test_none.py"]
    assert missing("| a | b | by hand |") == [" by hand"]
