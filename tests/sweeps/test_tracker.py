"""How a sweep stands, event by event, without any process."""

from dataclasses import replace

import pytest
import torch
from _internals import (
    PRESETS,
    Block,
    DataError,
    DataRequest,
    Event,
    Needs,
    SweepData,
    SweepFolder,
    Tracker,
    Variant,
    core_cores as resources,
    plan,
    sweep_status,
)

from shiftproof import Domain, DomainDataset


@pytest.fixture
def jobs():
    parts = tuple(Domain(name, torch.rand(9, 2), torch.arange(9) % 2) for name in "abc")
    dataset = DomainDataset("toy", parts, ("n", "y"), "table", "mlp", 100)
    data = SweepData("toy", DataRequest("toy"))
    needs = Needs(("test-in",))
    return list(
        plan(Block(data, [Variant.plain("erm")], needs, [0], 1), {0: dataset}, PRESETS["lite"])
    )


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sweep").mkdir()
    return SweepFolder(tmp_path / "sweep")


def test_it_gives_up_only_if_no_run_ever_took_a_step(jobs, tmp_path):
    every = [*jobs, *(replace(job, variant="irm") for job in jobs)]
    failed = [Event("failed", job, reason="no file") for job in every]

    def stops(name, *events):
        (tmp_path / name).mkdir()
        folder = SweepFolder(tmp_path / name)
        tracker = Tracker(every, folder, lambda job: 10.0, 2, lambda standing: None)
        return [tracker(event) for event in events]

    # Not before three failures, nor before one of each kind.
    assert stops("a", failed[0], failed[3], failed[1]) == [False, False, True]
    assert stops("b", *failed[:4]) == [False, False, False, True]
    step = Event("progress", jobs[0], step=1)
    assert not any(stops("c", step, *failed[1:5]))
    # Once given up, it stays so.
    assert stops("d", *failed[:4], Event("progress", every[5], step=1))[-1]


def test_counts_best_and_time_left(jobs, folder):
    shown = []
    tracker = Tracker(jobs, folder, lambda job: 10.0, 2, shown.append)
    standing = tracker.standing
    assert tracker.left == jobs
    tracker(Event("started", jobs[0]))
    tracker(Event("progress", jobs[0], step=1001 // 2))
    assert standing.running[jobs[0].id][:2] == (jobs[0].title, 500)
    tracker(Event("ended", jobs[0], 1001, "finished", seconds=20.0, accuracy={"a/in": 0.75}))
    # Twice as slow as estimated, two jobs of ten seconds left, two processes.
    assert standing.seconds_left == pytest.approx(2 * (10 + 10) / 2)
    assert standing.best == {"toy without a": (0.75, "erm")}
    tracker(Event("ended", jobs[1], 7, "diverged", seconds=1.0, accuracy={"b/in": 0.9}))
    tracker(Event("failed", jobs[2], reason="no memory", trace="long"))
    assert standing.counts == {"finished": 1, "diverged": 1, "failed": 1}
    assert "toy without b" not in standing.best
    assert folder.state(jobs[2]) == "failed"
    assert [f.reason for f in folder.failures(jobs)] == ["no memory"]
    assert standing.running == {}


def test_a_stopped_run_is_neither_done_nor_lost(jobs, folder):
    tracker = Tracker(jobs, folder, lambda job: 10.0, 1, lambda standing: None)
    tracker(Event("started", jobs[0]))
    tracker(Event("ended", jobs[0], 50, "stopped"))
    assert tracker.standing.counts == {}
    assert tracker.standing.running == {}


def test_another_terminal_sees_the_same(jobs, folder):
    tracker = Tracker(jobs, folder, lambda job: 10.0, 1, lambda standing: None)
    with pytest.raises(DataError, match="has not started"):
        sweep_status(folder.path)
    tracker(Event("ended", jobs[0], 1001, "finished", seconds=20.0, accuracy={"a/in": 0.5}))
    status = sweep_status(folder.path)
    assert status == (tracker.standing, True)
    tracker.end()
    assert not sweep_status(folder.path).running


@pytest.mark.parametrize(
    ("free", "one", "expected"), [(16e9, 1e9, 4), (2.6e9, 1e9, 2), (0.1e9, 1e9, 1), (None, 1e9, 4)]
)
def test_processes_are_as_many_as_cores_and_memory_allow(monkeypatch, free, one, expected):
    monkeypatch.setattr(resources, "cores", lambda: 4)
    monkeypatch.setattr(resources, "available_memory", lambda: free)
    assert resources.choose_workers(None, int(one)) == expected
    assert resources.choose_workers(7, int(one)) == 7
