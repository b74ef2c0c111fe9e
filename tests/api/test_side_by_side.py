"""Runs in several processes give what they give in one, and a process that fails costs nothing."""

import signal
import subprocess
import threading
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from _internals import Observer, api_side_by_side as side_by_side, core_own_process as own_process

import shiftproof

DOMAINS = ("a", "b", "c")
COLUMNS = {"label": "label", "domain": "site"}


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(90, 3)), columns=["x", "y", "z"])
    rows["label"] = np.where(rows.x + rng.normal(size=90) > 0, "ill", "well")
    rows["site"] = np.repeat(DOMAINS, 30)
    return rows


@pytest.fixture
def started(monkeypatch):
    """Two processes from the beginning on; returns those that were started."""
    found = []

    class Popen(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            found.append(self)

    monkeypatch.setattr(own_process.subprocess, "Popen", Popen)
    monkeypatch.setattr(side_by_side, "PATIENCE", 0.0)
    monkeypatch.setattr(side_by_side, "choose_workers", lambda asked, memory: 2)
    return found


def slowly(train, until):
    """Return a `train` of this process that waits, the first time, until something is true."""

    def slow(*arguments, **settings):
        ends = time.monotonic() + 60
        while not until() and time.monotonic() < ends:
            time.sleep(0.05)
        return train(*arguments, **settings)

    return slow


class Told(Observer):
    def __init__(self):
        self.progressed, self.recorded = [], []

    def progress(self, what, done, total):
        self.progressed.append(what)

    def record(self, record):
        self.recorded += record["accuracy"]


def test_runs_of_two_processes_are_those_of_one(table, started, tmp_path, monkeypatch):
    alone = [
        shiftproof.train(table, "linear", test_domains=name, out=tmp_path / f"{name}1", **COLUMNS)
        for name in DOMAINS
    ]
    folder = tmp_path / "each"
    others = [folder / name / "done.json" for name in DOMAINS[1:]]
    ready = lambda: all(path.exists() for path in others)  # noqa: E731
    monkeypatch.setattr(side_by_side, "train", slowly(side_by_side.train, ready))
    told = Told()
    each = shiftproof.train_each(table, "linear", out=folder, observer=told, **COLUMNS)
    assert len(started) == 1
    assert started[0].poll() is not None
    assert all(path.exists() for path in others)
    assert [run.config.test_domains for run in each.runs] == [(name,) for name in DOMAINS]
    assert [score.domain for score in each.scores] == list(DOMAINS)
    for one, other in zip(alone, each.runs, strict=True):
        name = one.config.test_domains[0]
        assert np.array_equal(one.outputs[name].probabilities, other.outputs[name].probabilities)
    assert told.recorded == [f"{name}/in" for name in DOMAINS]


def test_a_process_that_fails_costs_nothing(table, started, tmp_path, monkeypatch):
    monkeypatch.setattr(own_process.sys, "executable", "false")
    ended = lambda: started and started[0].poll() is not None  # noqa: E731
    monkeypatch.setattr(side_by_side, "train", slowly(side_by_side.train, ended))
    each = shiftproof.train_each(table, "linear", out=tmp_path, **COLUMNS)
    assert len(started) == 1
    assert each.status == "finished"
    assert [score.domain for score in each.scores] == list(DOMAINS)


def test_a_run_that_its_process_lost_is_made_by_the_caller(table, started, tmp_path, monkeypatch):
    # A process that asks for a run, takes it, and dies.
    program = """
import pickle, sys
sys.stdout.buffer.write(pickle.dumps(None))
sys.stdout.buffer.flush()
taken = b""
while b"Waiting" not in taken:
    taken += sys.stdin.buffer.read1()
"""
    monkeypatch.setattr(side_by_side, "PROGRAM", program)
    ended = lambda: started and started[0].poll() is not None  # noqa: E731
    monkeypatch.setattr(side_by_side, "train", slowly(side_by_side.train, ended))
    each = shiftproof.train_each(table, "linear", out=tmp_path, **COLUMNS)
    assert started[0].returncode == 0
    assert each.status == "finished"
    assert [score.domain for score in each.scores] == list(DOMAINS)


def test_who_is_stopped_stops_the_others(table, started, tmp_path, monkeypatch):
    train = side_by_side.train

    def stopped(*arguments, **settings):
        while not started:
            time.sleep(0.05)
        return replace(train(*arguments, **settings), status="stopped")

    monkeypatch.setattr(side_by_side, "train", stopped)
    each = shiftproof.train_each(table, "linear", out=tmp_path, **COLUMNS)
    assert each.status == "stopped"
    assert [score.domain for score in each.scores] == ["a"]
    assert started[0].poll() is not None


def test_a_process_that_is_stopped_while_it_starts_says_nothing(
    table, started, tmp_path, monkeypatch
):
    # The data fill the pipe (64 KiB) of a process that does not read yet, and a part is left over
    # when it is killed: closing the pipe then fails.
    def fill(to, what):
        filled.append(True)
        to.write(bytes(67_000))
        to.flush()

    monkeypatch.setattr(side_by_side, "_send", fill)
    monkeypatch.setattr(side_by_side, "PROGRAM", "import time; time.sleep(600)")
    raised, filled = [], []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    train = side_by_side.train

    def stopped(*arguments, **settings):
        while not filled:
            time.sleep(0.05)
        return replace(train(*arguments, **settings), status="stopped")

    monkeypatch.setattr(side_by_side, "train", stopped)
    each = shiftproof.train_each(table, "linear", out=tmp_path, **COLUMNS)
    assert each.status == "stopped"
    assert started[0].poll() is not None
    assert not raised


class StopLate(Observer):
    """Sends a signal when a run has been evaluated: nothing is left of it that could stop."""

    def __init__(self, number):
        self.number = number

    def record(self, record):
        signal.raise_signal(self.number)


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stop_at_the_end_of_a_run_stops_the_following_ones(
    table, started, tmp_path, monkeypatch, number, processes
):
    monkeypatch.setattr(side_by_side, "choose_workers", lambda asked, memory: processes)
    ready = lambda: processes == 1 or started  # noqa: E731
    monkeypatch.setattr(side_by_side, "train", slowly(side_by_side.train, ready))
    before = signal.signal(number, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            shiftproof.train_each(
                table, "linear", out=tmp_path, observer=StopLate(number), **COLUMNS
            )
    finally:
        signal.signal(number, before)
    assert (tmp_path / "a" / "done.json").exists()
    assert processes == 2 or not (tmp_path / "b").exists()
    assert all(process.poll() is not None for process in started)
    each = shiftproof.train_each(table, "linear", out=tmp_path, **COLUMNS)
    assert each.status == "finished"


def test_what_is_quick_starts_no_process(table, started, tmp_path, monkeypatch):
    monkeypatch.setattr(side_by_side, "PATIENCE", 600.0)
    shiftproof.train_each(table, "linear", out=tmp_path, **COLUMNS)
    assert not started
