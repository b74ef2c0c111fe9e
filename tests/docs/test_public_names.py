"""Documentation and examples use public names only: those of ``shiftproof.__all__``.

Three packages are public beside them: ``theory`` and ``information``, for the pages on the theory,
and ``testing``, for the tests of plugins.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import shiftproof

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SCRIPTS = sorted((ROOT / "examples").rglob("*.py"))
BLOCK = re.compile(r"^ *```+ *python[^\n]*\n(.*?)^ *```+ *$", re.MULTILINE | re.DOTALL)
PUBLIC_PACKAGES = ("shiftproof.theory", "shiftproof.information", "shiftproof.testing")


def code_of(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return text
    return "\n".join(textwrap.dedent(block) for block in BLOCK.findall(text))


def private_names(code: str) -> Iterator[str]:
    """Yield the names of Shiftproof that the code uses and that are not public."""
    for node in ast.walk(ast.parse(code)):
        modules: list[str] = []
        names: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "shiftproof":
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names = [node.attr] if node.value.id == "shiftproof" else []
        for module in modules:
            if module.startswith("shiftproof.") and not module.startswith(PUBLIC_PACKAGES):
                yield module
        for name in names:
            if name not in shiftproof.__all__ and f"shiftproof.{name}" not in PUBLIC_PACKAGES:
                yield f"shiftproof.{name}"


@pytest.mark.parametrize("path", [*PAGES, *SCRIPTS], ids=lambda path: path.name)
def test_only_public_names_are_used(path: Path) -> None:
    assert list(private_names(code_of(path))) == []


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import shiftproof.data.base", "shiftproof.data.base"),
        ("def f():\n    from shiftproof.core.space import Float", "shiftproof.core.space"),
        ("from shiftproof import data", "shiftproof.data"),
        ("import shiftproof\nshiftproof.cli.main()", "shiftproof.cli"),
    ],
)
def test_a_private_name_is_noticed(code: str, found: str) -> None:
    assert list(private_names(code)) == [found]


def test_public_names_pass() -> None:
    code = "import shiftproof, torch.nn\nfrom shiftproof import theory, InterDomainMatching\n"
    code += "from shiftproof.testing.contract import CHECKS\nshiftproof.ShiftproofClassifier()"
    assert list(private_names(code)) == []
    assert sum("shiftproof" in code_of(page) for page in PAGES) > 5
    assert SCRIPTS
