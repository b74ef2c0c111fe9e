"""Imports go downward only (design: Layers); the walker reads every file, and is tested itself."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import shiftproof

SOURCE = Path(shiftproof.__file__).parent
ROOT = "shiftproof"

# From the top down.  A folder or file directly under the package belongs to exactly one row.
LAYERS = [
    {"testing", "__main__"},
    {"cli"},
    {"api"},
    {"reporting", "sklearn", "paper"},
    {"sweeps", "shift"},
    {"inference"},
    {"training"},
    {"learners"},
    {"matching", "penalties"},
    {"data", "metrics", "models", "theory", "information"},
    {"statistics"},
    {"core"},
]
# Rows whose members do not import each other.  (Nothing imports the first row.)
STRANGERS = [
    {"testing", "__main__"},
    {"sweeps", "shift"},
    {"matching", "penalties"},
    {"data", "metrics", "models", "theory", "information"},
]
RANK = {part: len(LAYERS) - row for row, parts in enumerate(LAYERS) for part in parts}
# The bare package holds the version: everyone may import it, and it imports nobody.  It hands out
# a few names of others when they are asked for, and names them for type checkers.
RANK[""] = 0


class Import(NamedTuple):
    """One import: which file and line, and the parts of the package at both ends."""

    where: str
    source: str
    target: str


def part_of(module: str) -> str:
    """``shiftproof.data.datasets.mnist`` → ``data``; the bare package → the empty string."""
    return module.partition(".")[2].partition(".")[0]


def imported_modules(tree: ast.AST, package: str, parts: set[str]) -> Iterator[tuple[int, str]]:
    """Yield (line, absolute module) of every import in a file of ``package``, at any depth."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, base]) if base else ".".join(parents)
            for alias in node.names:
                # "from shiftproof import data" names a part; "… import __version__" does not.
                names_a_part = base == ROOT and alias.name in parts
                yield node.lineno, f"{base}.{alias.name}" if names_a_part else base
        elif isinstance(node, ast.Call) and node.args:
            name = getattr(node.func, "attr", getattr(node.func, "id", None))
            module = node.args[0]
            if name in ("import_module", "__import__") and isinstance(module, ast.Constant):
                yield node.lineno, str(module.value)


def is_for_type_checkers(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports_within(folder: Path) -> list[Import]:
    """Return every import of one part of the package at ``folder`` by a file of it."""
    files = sorted(folder.rglob("*.py"))
    parts = {path.stem for path in folder.iterdir() if path.suffix == ".py"} | {
        path.name for path in folder.iterdir() if path.is_dir()
    }
    found = []
    for path in files:
        relative = path.relative_to(folder)
        module = ".".join([ROOT, *relative.with_suffix("").parts])
        package = module.rpartition(".")[0]  # "pkg.__init__" and "pkg.module" both live in pkg
        module = module.removesuffix(".__init__")
        tree = ast.parse(path.read_text("utf-8"))
        if relative == Path("__init__.py"):
            tree.body = [node for node in tree.body if not is_for_type_checkers(node)]
        for line, target in imported_modules(tree, package, parts):
            if target == ROOT or target.startswith(f"{ROOT}."):
                found.append(Import(f"{relative}:{line}", part_of(module), part_of(target)))
    return found


def parts_without_a_layer(folder: Path) -> list[str]:
    files = {path.relative_to(folder).with_suffix("").parts[0] for path in folder.rglob("*.py")}
    return sorted(files - {"__init__"} - RANK.keys())


def violations(folder: Path) -> list[str]:
    found = []
    for where, source, target in imports_within(folder):
        if source not in RANK or target not in RANK or source == target:
            continue  # a part without a layer is reported on its own
        sideways = any({source, target} <= row for row in STRANGERS)
        if RANK[source] < RANK[target] or sideways:
            found.append(f"{where}: {source or ROOT} imports {target}")
    return found


def test_every_part_has_its_layer() -> None:
    assert parts_without_a_layer(SOURCE) == []


def test_imports_go_downward_only() -> None:
    assert violations(SOURCE) == []


def test_the_walker_sees_the_imports_that_are_there() -> None:
    """A walker that finds nothing would pass; these exist."""
    seen = {(source, target) for _, source, target in imports_within(SOURCE)}
    assert {
        ("learners", "penalties"),
        ("penalties", "core"),
        ("testing", "learners"),
        ("__main__", "cli"),
        ("sweeps", "training"),
    } <= seen


# --- the walker itself ------------------------------------------------------------------------

SYNTHETIC = {
    "an upward import": ("data/files.py", "import shiftproof.training.loop", "data", "training"),
    "an upward from": ("data/x.py", "from shiftproof.learners import X", "data", "learners"),
    "a part from the bare package": ("core/e.py", "from shiftproof import cli", "core", "cli"),
    "a sideways import": ("data/files.py", "from shiftproof.models import Y", "data", "models"),
    "sweeps and shift": (
        "shift/diagnose.py", "import shiftproof.sweeps", "shift", "sweeps",
    ),
    "one in a function": (
        "matching/pdm.py",
        "def f():\n    if True:\n        from shiftproof.training import loop",
        "matching",
        "training",
    ),
    "one in a method": (
        "core/types.py",
        "class C:\n    def f(self):\n        import shiftproof.models.net as n",
        "core",
        "models",
    ),
    "one for type checking": (
        "learners/erm.py",
        "import typing\nif typing.TYPE_CHECKING:\n    from shiftproof.training import L",
        "learners",
        "training",
    ),
    "one tried": (
        "core/s.py", "try:\n    import shiftproof.cli\nexcept OSError:\n    pass", "core", "cli",
    ),
    "a relative one": ("data/files.py", "from ..training.loop import run", "data", "training"),
    "a relative one of a part": ("data/files.py", "from .. import training", "data", "training"),
    "a relative one in a package": (
        "data/__init__.py", "from ..learners import X", "data", "learners",
    ),
    "a relative one at the top": ("api.py", "from .cli import X", "api", "cli"),
    "a deep one": ("data/deep/er.py", "from ...training import loop", "data", "training"),
    "one by name": (
        "matching/pdm.py",
        "import importlib\nimportlib.import_module('shiftproof.cli')",
        "matching",
        "cli",
    ),
    "testing by anyone": ("cli/check.py", "from shiftproof.testing import t", "cli", "testing"),
    "main by anyone": ("cli/check.py", "from shiftproof import __main__", "cli", "__main__"),
    "main by testing": ("testing/t.py", "import shiftproof.__main__", "testing", "__main__"),
    "a check of another kind": (
        "__init__.py", "if CHECKED:\n    from .sklearn import E", ROOT, "sklearn",
    ),
    "an export of the bare package": ("__init__.py", "from .sklearn import E", ROOT, "sklearn"),
}  # fmt: skip

ALLOWED = {
    "__init__.py": "if TYPE_CHECKING:\n    from shiftproof.sklearn import E",
    "data/files.py": "from shiftproof.core import E\nfrom .base import D\nfrom . import base",
    "data/base.py": "import torch, shiftproof.core.types\nfrom shiftproof.data import files",
    "core/space.py": "from shiftproof.core.seeding import s\nfrom shiftproof import __version__",
    "learners/__init__.py": "from .base import A",
    "learners/base.py": "from shiftproof.penalties import pdm\nfrom ..models import net",
    "cli/__init__.py": "def main():\n    from shiftproof.reporting import page",
    "reporting/page.py": "from shiftproof.sweeps import ranking\nfrom shiftproofing.cli import x",
    "testing/t.py": "from shiftproof.cli import main\nfrom shiftproof.testing import u",
    "sweeps/plan.py": "import shiftproof.training.loop\nimport json",
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with every part of the layers, all empty."""
    folder = tmp_path / ROOT
    for part in RANK:
        if part in ("", "__main__", "api"):
            path = folder / f"{part or '__init__'}.py"
        else:
            path = folder / part / "__init__.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return folder


def put(package: Path, name: str, body: str) -> None:
    path = package / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(body + "\n")


@pytest.mark.parametrize("case", SYNTHETIC)
def test_the_walker_catches(case: str, package: Path) -> None:
    assert violations(package) == []
    name, body, source, target = SYNTHETIC[case]
    put(package, name, body)
    (found,) = violations(package)
    assert found.startswith(f"{name}:")
    assert found.endswith(f": {source} imports {target}")


def test_the_walker_lets_downward_imports_pass(package: Path) -> None:
    for name, body in ALLOWED.items():
        put(package, name, body)
    assert violations(package) == []
    assert len(imports_within(package)) == 15


@pytest.mark.parametrize("name", ["misc.py", "helpers/things.py"])
def test_the_walker_catches_a_part_without_a_layer(name: str, package: Path) -> None:
    assert parts_without_a_layer(package) == []
    put(package, name, "")
    assert parts_without_a_layer(package) == [name.partition("/")[0].removesuffix(".py")]


# --- what importing costs ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "module", ["shiftproof", "shiftproof.cli", "shiftproof.training.run_folder"]
)
def test_importing_does_not_load_torch(module: str) -> None:
    script = f"import sys, {module}; print('torch' in sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    assert run.stdout.strip() == "False"
