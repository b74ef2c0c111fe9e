"""No import cycle, not even one hidden in a function."""

import ast
from pathlib import Path

import pytest

import shiftproof

SOURCE = Path(shiftproof.__file__).parent
FILES = {
    ".".join(("shiftproof", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(
        ".__init__"
    ): path
    for path in SOURCE.rglob("*.py")
}


def imports_of(path: Path) -> set[str]:
    """The modules of ours that a file imports, at any depth, except for type checkers."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (names & FILES.keys()) or {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & FILES.keys()


@pytest.fixture(scope="module")
def reached() -> dict[str, set[str]]:
    """All modules that each module imports, directly or not."""
    direct = {module: imports_of(path) for module, path in FILES.items()}
    reached: dict[str, set[str]] = {}
    for module in FILES:
        seen, left = set(), [*direct[module]]
        while left:
            if (name := left.pop()) not in seen:
                seen.add(name)
                left += direct[name]
        reached[module] = seen
    return reached


@pytest.mark.parametrize("room", ["sweeps", "paper", "reporting", "api"])
def test_no_module_imports_itself_by_way_of_others(reached, room):
    own = [module for module in FILES if module.startswith(f"shiftproof.{room}")]
    assert [module for module in own if module in reached[module]] == []
    assert any(reached[module] for module in own)
