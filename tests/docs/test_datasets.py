"""The page of datasets has every name: DomainBed's, and ours."""

from __future__ import annotations

import re
from pathlib import Path

from _internals import library_datasets

from shiftproof import DATASETS

PAGE = Path(__file__).parents[2] / "docs" / "datasets.md"
# `DATASETS` in DomainBed's datasets.py at 99353c2; Spirals is in another version only.
DOMAINBED = [
    *("Debug28", "Debug224", "ColoredMNIST", "RotatedMNIST"),
    *("VLCS", "PACS", "OfficeHome", "TerraIncognita", "DomainNet", "SVIRO"),
    *("WILDSCamelyon", "WILDSFMoW"),
    *(
        f"Spawrious{kind}_{level}"
        for kind in ("O2O", "M2M")
        for level in ("easy", "medium", "hard")
    ),
]


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_dataset_of_domainbed_is_here_or_has_a_reason() -> None:
    first = next(n for n, row in enumerate(rows()) if row[0] == "DomainBed") + 2
    found = {row[0]: row for row in rows()[first : first + len(DOMAINBED)]}
    assert sorted(found) == sorted(DOMAINBED)
    for _, here, how in found.values():
        if here == "none":
            assert len(how) > 15  # a reason
        else:
            assert here.strip("`") in DATASETS
    available = sum(here != "none" for _, here, _ in found.values())
    assert f"{available} of DomainBed's {len(found)} datasets" in PAGE.read_text("utf-8")


def test_every_name_of_ours_is_on_the_page_as_it_gets_here() -> None:
    named = {}
    for row in rows():
        for cell in row[:2]:
            if match := re.fullmatch(r"`([\w-]+)`", cell):
                named[match[1]] = row[2]
    assert sorted(named) == sorted(DATASETS)
    for name, source in library_datasets().items():
        assert "import" in named[name]
        assert ("pull" in named[name]) == bool(source.card.sources), name
