"""One line for the whole study."""

from types import SimpleNamespace

import pytest
from _internals import DONE, StudyProgress, cli_study_progress as study_progress


def run(domain):
    return SimpleNamespace(test_domains=(domain,) if domain else ())


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(study_progress.time, "monotonic", lambda: now.seconds)
    return now


@pytest.fixture
def progress(clock, monkeypatch):
    found = StudyProgress(quiet=True)
    monkeypatch.setattr(study_progress, "dataset_summary", lambda _: "4 domains")
    found.loaded(
        SimpleNamespace(name="t.csv", columns={"domain": "hospital"}, domains=list("abcd"))
    )
    return found


def test_before_a_run_ends_the_time_left_is_unknown(progress):
    progress.begin(run("a"), 0)
    assert progress.line() == "hospital 1 of 4"


def test_then_it_is_the_time_of_the_runs_so_far(progress, clock):
    progress.begin(run("a"), 0)
    clock.seconds += 60
    progress.progress(DONE, 1, 4)
    assert progress.line() == "hospital 2 of 4, 4 min left"
    clock.seconds += 20
    progress.progress(DONE, 4, 4)
    progress.begin(run(""), 0)
    assert progress.line() == "model on all 4, 20 s left"
    clock.seconds += 12
    assert progress.line() == "model on all 4, 10 s left"  # it does not grow
    clock.seconds += 100
    assert progress.line() == "model on all 4, 5 s left"


def test_lines_are_printed_where_there_is_no_terminal(clock, capsys, monkeypatch):
    found = StudyProgress()
    monkeypatch.setattr(study_progress, "dataset_summary", lambda _: "2 domains")
    found.loaded(SimpleNamespace(name="t.csv", columns={}, domains=list("ab")))
    found.begin(run("a"), 0)
    found.step(1, {})
    clock.seconds += 30
    found.progress(DONE, 1, 2)
    found.note("odd")
    found.note("odd")
    assert capsys.readouterr().err.splitlines() == [
        "t.csv: 2 domains",
        "domain 1 of 2",
        "domain 2 of 2, 1 min left",
        "note: odd",
    ]
