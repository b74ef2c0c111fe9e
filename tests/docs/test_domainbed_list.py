"""DomainBed's algorithms and datasets, name by name, are tables in docs/which-algorithm.md."""

from __future__ import annotations

from itertools import dropwhile, takewhile
from pathlib import Path

from _internals import ALGORITHM_NAMES

from shiftproof import ALGORITHMS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "which-algorithm.md"
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


def table(page: Path, head: str) -> list[list[str]]:
    """Return the cells of the first table whose first cell is `head`, without its head."""
    lines = iter(page.read_text(encoding="utf-8").splitlines())
    rows = takewhile(bool, dropwhile(lambda line: not line.startswith(f"| {head} |"), lines))
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows][2:]


def test_every_dataset_is_ticked_or_has_a_reason() -> None:
    """As on the page of datasets, whose names `test_datasets.py` compares with DomainBed's."""
    known = table(DOCS / "datasets.md", "DomainBed")
    expected = [
        [name, f"none: {how}" if here == "none" else f"✓ {here}"] for name, here, how in known
    ]
    found = table(PAGE, "DomainBed's dataset")
    assert found == expected
    ticked = sum(here.startswith("✓") for _, here in found)
    assert f"{ticked} of DomainBed's {len(found)} datasets" in PAGE.read_text(encoding="utf-8")
