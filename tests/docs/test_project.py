"""The files around the code: citation, changelog, hooks, workflow."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import yaml

import shiftproof

ROOT = Path(__file__).parents[2]
LAYERS = runpy.run_path(str(ROOT / "tests/test_layers.py"))["LAYERS"]
VERSION = shiftproof.__version__


def read_yaml(name: str) -> dict:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_the_citation_is_of_this_version() -> None:
    citation = read_yaml("CITATION.cff")
    assert citation["version"] == VERSION
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()


def test_the_changelog_has_this_version_and_known_sections() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert versions[0] == "Unreleased"
    assert VERSION in [version.split()[0] for version in versions[1:]]
    sections = set(re.findall(r"^### (.*)$", text, re.MULTILINE))
    assert sections <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_hooks_fetch_nothing() -> None:
    for repository in read_yaml(".pre-commit-config.yaml")["repos"]:
        assert repository["repo"] == "local"
        for hook in repository["hooks"]:
            assert hook["language"] == "system"


def test_the_workflow_runs_what_contributors_run() -> None:
    steps = read_yaml(".github/workflows/ci.yml")["jobs"]["check"]["steps"]
    commands = [step["run"] for step in steps if "run" in step]
    assert commands == ["make lint", "make test"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in commands:
        assert re.search(rf"^{command.removeprefix('make ')}:", makefile, re.MULTILINE)


def test_the_issue_forms_have_what_github_needs() -> None:
    forms = list((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
    assert len(forms) == 3
    for path in forms:
        if path.stem != "config":
            form = read_yaml(str(path.relative_to(ROOT)))
            assert {"name", "description", "body"} <= form.keys()
            assert all("label" in part["attributes"] for part in form["body"])


def test_the_fast_tests_are_those_of_the_layers_below_training() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (fast,) = re.findall(r"^FAST := (.*)$", makefile, re.MULTILINE)
    layers = next(i for i, row in enumerate(LAYERS) if "training" in row)
    below = set().union(*LAYERS[layers + 1 :])
    assert fast.split() == sorted(name for name in below if (ROOT / "tests" / name).is_dir())
