"""Names that the documentation mentions are there: modules, functions, settings, tests, files."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from shiftproof import theory as bounds

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
FENCED = re.compile(r"^ *```.*?^ *```+ *$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
# Groups of entry points, which look like modules.
ENTRY_POINTS = {"shiftproof.algorithms", "shiftproof.datasets", "shiftproof.selectors"}
# Numbered in the paper, beside the theorems, propositions and lemmas of STATEMENTS.
OTHERS = [
    *(f"Assumption II.{number}" for number in range(1, 6)),
    "Problem II.6",
    *(f"Definition A.{number}" for number in range(1, 6)),
    *(f"Equation ({number})" for number in range(1, 5)),
    "Algorithm 1",
    "Algorithm 2",
]


def mentioned(page: Path) -> set[str]:
    """Return what stands in backticks outside of blocks."""
    return set(CODE.findall(FENCED.sub("", page.read_text(encoding="utf-8"))))


def resolve(name: str) -> Any:
    """Return what a dotted name stands for: a module, something in one, or a field of a class."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            fields = getattr(found, "__dataclass_fields__", {})
            found = fields[part] if part in fields else getattr(found, part)
        return found
    raise AttributeError(name)


def all_tests() -> set[str]:
    """Return the names of all tests of the project."""
    return {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^ *def (test_\w+)\(", path.read_text("utf-8"), re.MULTILINE)
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_dotted_names_exist(page: Path) -> None:
    for name in mentioned(page):
        plain = re.fullmatch(r"(shiftproof(?:\.\w+)+)(?:\(.*\))?", name)
        if plain and name not in ENTRY_POINTS:
            resolve(plain[1])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_tests_exist(page: Path) -> None:
    named = {name for name in mentioned(page) if re.fullmatch(r"test_\w+", name)}
    assert named <= all_tests(), named - all_tests()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_files_exist(page: Path) -> None:
    for name in mentioned(page):
        path = re.match(r"((?:src|tests|results|benchmarks|tools|examples)/[\w./*-]+)(?: |$)", name)
        if path:
            assert list(ROOT.glob(path[1].rstrip("/"))), name


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_outside_the_site_lead_somewhere(name: str) -> None:
    """The build of the site looks after the links of docs/."""
    text = FENCED.sub("", (ROOT / name).read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (ROOT / target).exists(), target


def test_the_page_of_theorems_is_complete() -> None:
    text = (DOCS / "theorems.md").read_text(encoding="utf-8")
    for statement in [*bounds.STATEMENTS, *OTHERS]:
        assert re.search(rf"\| {re.escape(statement)}[ ,|]", text), statement
    functions = [name for name, _ in inspect.getmembers(bounds, inspect.isfunction)]
    assert len(functions) > 30
    absent = [name for name in functions if f"`shiftproof.theory.{name}`" not in text]
    assert not absent


def test_every_statement_on_the_page_names_a_test() -> None:
    """A row of the tables: | statement | in short | code | tests |."""
    text = (DOCS / "theorems.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if re.match(r"\| (The|Pro|Lem|Equ|Alg)", line)]
    assert len(rows) > 25
    for row in rows:
        assert re.search(r"`test_\w+`", row), row


def test_a_name_that_is_not_there_is_noticed() -> None:
    assert resolve("shiftproof.learners.algorithms.idm.IDM.Hparams.variant")
    assert dataclasses.is_dataclass(resolve("shiftproof.theory.Bound"))
    for name in ("shiftproof.theory.source_gaps", "shiftproof.nothing"):
        with pytest.raises(AttributeError):
            resolve(name)
