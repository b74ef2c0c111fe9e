"""What was made smaller stays smaller: counts of the package that may only fall.

`tests/golden/ratchet.json` holds the counts.  After a change that lowers them,
`python tests/test_ratchet.py` writes the new ones; a change that raises one fails here.
"""

from __future__ import annotations

import ast
import io
import json
import sys
import tokenize
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "shiftproof"
LIMITS = TESTS / "golden" / "ratchet.json"
MOST_PARAMETERS = 20
UNCLEAR = {"found", "own", "each", "place"}
# Attributes and variables that tell classification from regression.
OF_THE_TASK = {"target", "targets", "kind", "classes", "is_regression", "regression", "numbers"}
NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}


def code_lines(text: str) -> int:
    """Return how many lines hold a token other than a comment or a docstring."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            is_constant = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            if is_constant and isinstance(first.value.value, str):
                lines.difference_update(range(first.lineno, first.end_lineno + 1))
    return len(lines)


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> int:
    """Return the number of parameters of a function."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return len([*named, *filter(None, (arguments.vararg, arguments.kwarg))])


def mentions_task(test: ast.expr) -> bool:
    """Whether a condition reads what tells classification from regression."""
    return any(
        (isinstance(node, ast.Attribute) and node.attr in OF_THE_TASK)
        or (isinstance(node, ast.Name) and node.id in OF_THE_TASK)
        for node in ast.walk(test)
    )


# Rooms of torch code, whose imports of torch are not counted.
OF_TORCH = ("learners/algorithms/", "matching/", "models/", "penalties/")


def imports_torch(node: ast.AST) -> bool:
    """Whether a statement imports torch or something that belongs to it."""
    names = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and not node.level:
        names = [node.module or ""]
    return any(name.partition(".")[0] in ("torch", "torchvision", "timm") for name in names)


def counted(files: dict[str, str]) -> Counter[str]:
    """Count, in files by their path under the package, what may only fall."""
    counts: Counter[str] = Counter()
    for path, text in files.items():
        tree = ast.parse(text)
        counts["code lines"] += code_lines(text)
        counts["modules"] += 1
        if not path.startswith(OF_TORCH) and any(map(imports_torch, ast.walk(tree))):
            counts[f"modules that import torch in {path.partition('/')[0]}"] += 1
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                counts["functions with more than 20 parameters"] += (
                    parameters(node) > MOST_PARAMETERS
                )
            if isinstance(node, ast.If | ast.IfExp):
                counts["branches on the task"] += mentions_task(node.test)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                counts["unclear variable names"] += node.id in UNCLEAR
            elif isinstance(node, ast.arg):
                counts["unclear variable names"] += node.arg in UNCLEAR
        inside = {
            node
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
            for node in ast.walk(function)
            if isinstance(node, ast.Import | ast.ImportFrom)
        }
        counts["imports inside functions"] += len(inside)
    return counts


@cache
def today() -> Counter[str]:
    """Return the counts of the package as it is."""
    paths = sorted(SOURCE.rglob("*.py"))
    return counted({str(path.relative_to(SOURCE)): path.read_text() for path in paths})


def test_counts_of_a_small_package():
    text = '''"""A module."""

import torch


def verdict(target, own):
    """One line."""
    from math import inf

    each = 1 if target.kind == "class" else inf
    return each  # a comment
'''
    counts = counted({"room/module.py": text})
    assert counts == {
        "code lines": 5,
        "modules": 1,
        "modules that import torch in room": 1,
        "functions with more than 20 parameters": 0,
        "branches on the task": 1,
        "imports inside functions": 1,
        "unclear variable names": 2,
    }
    many = ", ".join(f"p{n}" for n in range(MOST_PARAMETERS))
    assert counted({"a.py": f"def f({many}): ..."})["functions with more than 20 parameters"] == 0
    assert counted({"a.py": f"def f({many}, *a): ..."})["functions with more than 20 parameters"]


@pytest.mark.parametrize("what", sorted(json.loads(LIMITS.read_text())))
def test_no_count_has_grown(what):
    limit = json.loads(LIMITS.read_text())[what]
    assert today()[what] <= limit, f"{what}: {today()[what]}, at most {limit} (see {__file__})"


def test_nothing_counted_is_without_a_limit():
    assert today().keys() <= json.loads(LIMITS.read_text()).keys()


def test_limits_follow_what_was_won():
    loose = {
        what: f"{today()[what]} of {limit}"
        for what, limit in json.loads(LIMITS.read_text()).items()
        if today()[what] < 0.98 * limit - 1
    }
    assert not loose, f"run `python {Path(__file__).relative_to(TESTS.parent)}`: {loose}"


def test_tests_import_public_names_or_internals():
    public = {"shiftproof"} | {
        f"shiftproof.{path.parent.name}"
        for path in SOURCE.glob("*/__init__.py")
        if "__all__" in path.read_text()
    }
    internal = [
        f"{path.relative_to(TESTS)}:{node.lineno} {node.module}"
        for path in sorted(TESTS.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").partition(".")[0] == "shiftproof"
        and node.module not in public
    ]
    assert not internal, "import these from _internals"


if __name__ == "__main__":
    LIMITS.write_text(json.dumps(dict(sorted(today().items())), indent=1) + "\n")
    sys.stdout.write(LIMITS.read_text())
