"""The tests that `docs/reliability.md` names exist."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "reliability.md"
ROWS = [
    line for line in PAGE.read_text("utf-8").splitlines() if re.match(r"\| (?!attack|fault)", line)
]


def functions(file):
    found = ast.parse((TESTS / file).read_text("utf-8")).body
    return {node.name for node in found if isinstance(node, ast.FunctionDef)}


def missing(row):
    """Return the tests in the last cell of a row that there are not, or the cell if it has none."""
    cell = row.rstrip(" |").rpartition("|")[2]
    absent, file = [], None
    for name in re.findall(r"`([^`]+)`", cell):
        if name.endswith(".py"):
            file = name
            absent += [] if (TESTS / file).is_file() else [file]
        elif name.startswith("test_") and name not in functions(file):
            absent.append(f"{file}: {name}")
        elif not name.startswith("test_") and name not in (TESTS / file).read_text("utf-8"):
            absent.append(f"{file} ({name})")
    return absent if file else [cell]


def test_every_row_names_tests_that_exist():
    assert len(ROWS) > 40
    assert [absent for row in ROWS for absent in missing(row)] == []


def test_a_name_that_does_not_exist_is_found():
    assert missing("| a | 1 | b | `test_none.py` |") == ["test_none.py"]
    assert missing("| a | 1 | b | `test_faults.py`: `test_x` |") == ["test_faults.py: test_x"]
    assert missing("| a | 1 | b | by hand |") == [" by hand"]
