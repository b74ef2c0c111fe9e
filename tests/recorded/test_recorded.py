"""What commands print and write is what was recorded, except in folders, times and versions.

`python -m pytest tests/recorded --record` writes the recordings anew.
"""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import pytest
from recorded.commands import GROUPS, ROOT
from recorded.recording import EXPECTED, difference, record_group
from recorded.samples import write_samples

# Their other versions give other numbers.
PACKAGES = ("numpy", "pandas", "scikit-learn", "scipy", "torch")


def other_versions() -> list[str]:
    """Return the packages whose version is not the one of the recordings, in constraints.txt."""
    pinned = dict(re.findall(r"^([\w-]+)==([\d.]+)", (ROOT / "constraints.txt").read_text(), re.M))
    return [p for p in PACKAGES if not importlib.metadata.version(p).startswith(pinned[p])]


@pytest.mark.parametrize("name", GROUPS)
def test_commands_do_what_was_recorded(
    name: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    few_trees: None,
    jobs_here: None,
    request: pytest.FixtureRequest,
) -> None:
    group = GROUPS[name]
    for module in group.needs:
        pytest.importorskip(module)
    if group.numbers and (others := other_versions()):
        pytest.skip(f"recorded with other versions of {', '.join(others)}")
    write_samples(tmp_path)
    got = record_group(group, tmp_path, capfd.readouterr)
    file = EXPECTED / f"{name}.txt"
    if request.config.getoption("--record"):
        file.write_text(got, "utf-8")
        return
    changes = difference(file.read_text("utf-8"), got)
    assert not changes, f"{file.name}:\n{changes}"
