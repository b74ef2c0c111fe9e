"""DomainBed's algorithms, name by name, are a table in docs/which-algorithm.md."""

from __future__ import annotations

from pathlib import Path

from _internals import ALGORITHM_NAMES

from shiftproof import ALGORITHMS

PAGE = Path(__file__).parents[2] / "docs" / "which-algorithm.md"
# The list `ALGORITHMS` of its algorithms.py, in its order, up to its last addition, URM.
DOMAINBED = (
    "ERM", "ERMPlusPlus", "Fish", "IRM", "GroupDRO", "Mixup", "MLDG", "CORAL", "MMD", "DANN",
    "CDANN", "MTL", "SagNet", "ARM", "VREx", "RSC", "SD", "ANDMask", "SANDMask", "IGA", "SelfReg",
    "Fishr", "TRM", "IB_ERM", "IB_IRM", "CAD", "CondCAD", "Transfer", "CausIRL_CORAL",
    "CausIRL_MMD", "EQRM", "RDM", "ADRMX", "URM",
)  # fmt: skip


def row(theirs: str) -> str:
    """Return the row of one algorithm, from what is registered."""
    ours = ALGORITHM_NAMES[theirs].ours
    cls = ALGORITHMS.get(ours)
    numbers = "no" if cls.classes_only else "yes"
    return f"| {theirs} | ✓ `{ours}` | {cls.family} | {numbers} | {cls.paper} |"


def test_every_name_is_a_row_as_registered() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("| DomainBed |"))
    rows = lines[start + 2 : start + 2 + len(DOMAINBED)]
    expected = [row(theirs) for theirs in DOMAINBED]
    assert rows == expected, "the table should be:\n" + "\n".join(expected)
    assert lines[start + 2 + len(DOMAINBED)] == ""


def test_the_count_on_the_page_is_that_of_the_list() -> None:
    assert f"All {len(DOMAINBED)} algorithms of DomainBed" in PAGE.read_text(encoding="utf-8")


def test_names_that_are_mapped_are_in_the_list() -> None:
    """All but IDM, whose authors extended DomainBed."""
    assert set(ALGORITHM_NAMES) - set(DOMAINBED) == {"IDM"}
