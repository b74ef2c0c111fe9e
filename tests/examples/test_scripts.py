"""The scripts of examples/ run, each in an empty folder; they check their own results."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_runs(
    script: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")
    assert "%" in (printed := capsys.readouterr().out) or "accuracy" in printed


def test_the_page_of_examples_lists_them_all() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    scripts = [path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.py")]
    assert len(scripts) == 6
    for script in scripts:
        assert f"({script})" in page or script == "plugin/shiftproof_mean_match.py"
