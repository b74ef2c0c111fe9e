"""What commands print and write is what was recorded, except in folders, times and versions.

`python -m pytest tests/recorded --record` writes the recordings anew.
"""

from __future__ import annotations

import importlib.metadata
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
from _internals import ColoredMNISTForIRM, Cost, sweeps_demo
from recorded.commands import GROUPS, HELP, ROOT, SHARED
from recorded.recording import EXPECTED, difference, help_page, plain_terminal, record_group
from recorded.samples import write_samples

SWEEP = SHARED / "golden" / "sweep" / "runs.tar.xz"
# Their other versions give other numbers.
PACKAGES = ("numpy", "pandas", "rich", "scikit-learn", "scipy", "torch")


def other_versions() -> list[str]:
    """Return the packages whose version is not the one of the recordings, in constraints.txt."""
    pinned = dict(re.findall(r"^([\w-]+)==([\d.]+)", (ROOT / "constraints.txt").read_text(), re.M))
    return [p for p in PACKAGES if not importlib.metadata.version(p).startswith(pinned[p])]


@pytest.fixture
def small_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps_demo, "STEPS", 6)
    data = ColoredMNISTForIRM(per_domain=60)
    monkeypatch.setattr(sweeps_demo, "load_demo_data", data.load)


@pytest.fixture
def one_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all runs of a sweep cost the same: their order follows from measured times."""
    monkeypatch.setattr(Cost, "seconds", lambda cost, job: 1.0)


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.usefixtures("few_trees", "jobs_here", "one_cost", "small_demo")
def test_commands_do_what_was_recorded(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    group = GROUPS[name]
    for module in group.needs:
        pytest.importorskip(module)
    if not group.messages_only and (others := other_versions()):
        pytest.skip(f"recorded with other versions of {', '.join(others)}")
    write_samples(tmp_path)
    if name == "shared":
        if not SWEEP.exists():
            pytest.skip("shared/golden/sweep, a recorded sweep, is not here")
        with tarfile.open(SWEEP) as archive:
            archive.extractall(tmp_path / "golden-sweep", filter="data")
    got = record_group(group, tmp_path, capfd.readouterr)
    compare(f"{name}.txt", got, group.relative, request)


def test_help_says_what_was_recorded(
    shiftproof: Any, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain_terminal(monkeypatch)
    parts = []
    for command in HELP:
        code, out, err = shiftproof(*command.split(), "--help")
        assert (code, err) == (0, "")
        parts += [f"$ shiftproof {command} --help", help_page(out), ""]
    compare("help.txt", "\n".join(parts), 0.0, request)


def compare(name: str, got: str, relative: float, request: pytest.FixtureRequest) -> None:
    """Compare with a recording, or write it."""
    file = EXPECTED / name
    if request.config.getoption("--record"):
        file.write_text(got, "utf-8")
        return
    changes = difference(file.read_text("utf-8"), got, relative)
    assert not changes, f"{name}:\n{changes}"
