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
    if "tensorboard" in script.stem:
        pytest.importorskip("tensorboard")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")
    assert "%" in (printed := capsys.readouterr().out) or "accuracy" in printed


def test_tensorboard_shows_every_number_of_every_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.chdir(tmp_path)
    done = runpy.run_path(str(EXAMPLES / "tensorboard_observer.py"), run_name="__main__")
    events = EventAccumulator("runs/watched/tensorboard").Reload()
    shown = {
        (tag, event.step): event.value
        for tag in events.Tags()["scalars"]
        for event in events.Scalars(tag)
    }
    records = done["run"].records
    assert [record["step"] for record in records] == [1, 11, 21, 31, 40]
    assert shown == {
        (tag, record["step"]): pytest.approx(value)
        for record in records
        for tag, value in done["numbers_of"](record)
    }
    assert ("accuracy/test/in", 40) in shown


def test_the_page_of_examples_lists_them_all() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    scripts = [path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.py")]
    assert len(scripts) == 7
    for script in scripts:
        assert f"({script})" in page or script == "plugin/shiftproof_mean_match.py"
