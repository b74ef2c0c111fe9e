"""Runs in several processes give what they give in one, and a process that fails costs nothing."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from _internals import Observer, api_parallel as parallel

import shiftproof

DOMAINS = ("a", "b", "c", "d")
COLUMNS = {"label": "label", "domain": "site"}


def made_table():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(120, 3)), columns=["x", "y", "z"])
    rows["label"] = np.where(rows.x + rng.normal(size=120) > 0, "ill", "well")
    rows["site"] = np.repeat(DOMAINS, 30)
    return rows


@pytest.fixture
def table():
    return made_table()


@pytest.fixture
def two(monkeypatch):
    """Two processes after the first run."""
    monkeypatch.setattr(parallel, "PATIENCE", 0.0)
    monkeypatch.setattr(parallel, "choose_workers", lambda asked, memory: 2)


class Told(Observer):
    def __init__(self):
        self.progressed, self.recorded, self.notes = [], [], []

    def progress(self, what, done, total):
        if what == parallel.DONE:
            self.progressed.append((done, total))

    def record(self, record):
        self.recorded += record["accuracy"]

    def note(self, text):
        self.notes.append(text)


def domains_of(each):
    return [score.domain for score in each.scores]


def test_runs_of_two_processes_are_those_of_one(table, two, tmp_path, monkeypatch):
    alone = [
        shiftproof.train(table, "linear", test_domains=name, out=tmp_path / f"{name}1", **COLUMNS)
        for name in DOMAINS
    ]
    here, told = [], Told()
    train = parallel.train
    monkeypatch.setattr(
        parallel, "train", lambda *a, **b: here.append(b["test_domains"]) or train(*a, **b)
    )
    each = shiftproof.train_each(table, "linear", out=tmp_path / "each", observer=told, **COLUMNS)
    assert here == ["a"]  # the others ran elsewhere
    assert [run.config.test_domains for run in each.runs] == [(name,) for name in DOMAINS]
    assert domains_of(each) == list(DOMAINS)
    for one, other in zip(alone, each.runs, strict=True):
        name = one.config.test_domains[0]
        assert np.array_equal(one.outputs[name].probabilities, other.outputs[name].probabilities)
    assert sorted(told.recorded) == [f"{name}/in" for name in DOMAINS]
    assert told.progressed == [(number, 4) for number in (1, 2, 3, 4)]


def test_notes_of_other_processes_are_told(table, two, tmp_path):
    table.loc[table.site == "d", "label"] = "ill"  # one class only
    told = Told()
    shiftproof.train_each(table, "linear", out=tmp_path, observer=told, **COLUMNS)
    assert sum("training samples of one class only" in note for note in told.notes) == 3


@pytest.mark.parametrize("failure", ["raises", "ends"])
def test_a_run_that_its_process_lost_is_made_by_the_caller(
    table, two, tmp_path, monkeypatch, failure
):
    lost = parallel._train

    def losing(domain, *rest):
        if domain == "c" and failure == "ends":
            os._exit(1)
        return (domain, None, []) if domain == "c" else lost(domain, *rest)

    monkeypatch.setattr(parallel, "_train", losing)
    each = shiftproof.train_each(table, "linear", out=tmp_path, **COLUMNS)
    assert each.status == "finished"
    assert domains_of(each) == list(DOMAINS)


def test_the_error_of_a_run_is_raised(table, two, tmp_path):
    (tmp_path / "c").write_text("no folder")
    with pytest.raises(Exception, match=r"c") as raised:
        shiftproof.train_each(table, "linear", out=tmp_path, **COLUMNS)
    assert not isinstance(raised.value, KeyboardInterrupt)


def test_a_stopped_run_is_the_last(table, two, tmp_path, monkeypatch):
    train = parallel.train
    monkeypatch.setattr(
        parallel, "train", lambda *a, **b: replace(train(*a, **b), status="stopped")
    )
    each = shiftproof.train_each(table, "linear", out=tmp_path, **COLUMNS)
    assert each.status == "stopped"
    assert domains_of(each) == ["a"]


class StopLate(Observer):
    """Sends a signal when a run has been evaluated: nothing is left of it that could stop."""

    def __init__(self, number):
        self.number = number

    def record(self, record):
        signal.raise_signal(self.number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stop_at_the_end_of_a_run_stops_the_following_ones(table, two, tmp_path, number):
    before = signal.signal(number, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            shiftproof.train_each(
                table, "linear", out=tmp_path, observer=StopLate(number), **COLUMNS
            )
    finally:
        signal.signal(number, before)
    assert (tmp_path / "a" / "done.json").exists()
    assert not (tmp_path / "b").exists()
    each = shiftproof.train_each(table, "linear", out=tmp_path, **COLUMNS)
    assert each.status == "finished"


def test_what_is_quick_starts_no_process(table, two, tmp_path, monkeypatch):
    monkeypatch.setattr(parallel, "PATIENCE", 600.0)
    monkeypatch.setattr(parallel, "_in_processes", lambda *_: 1 / 0)
    shiftproof.train_each(table, "linear", out=tmp_path, **COLUMNS)


# Trains in two processes, each of which writes its number to a file and then waits.
PROGRAM = """
import os, sys, time
from pathlib import Path

import shiftproof
from shiftproof.api import parallel
sys.path.insert(0, {tests!r})
from test_parallel import made_table

folder = Path({folder!r})
parallel.PATIENCE = 0.0
parallel.choose_workers = lambda asked, memory: 2
train = parallel._train

def slow(domain, run, dataset, settings, caller):
    parallel._end_with(caller)
    (folder / f"pid-{{os.getpid()}}").touch()
    time.sleep(600)

parallel._train = slow
shiftproof.train_each(made_table(), "linear", out=folder / "runs", label="label", domain="site")
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_processes_end_with_their_caller(tmp_path, number):
    tests = os.path.dirname(__file__)
    program = PROGRAM.format(tests=tests, folder=str(tmp_path))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    caller = subprocess.Popen([sys.executable, "-c", program], env=environment, stderr=-3)
    try:
        ends = time.monotonic() + 120
        while len(pids := list(tmp_path.glob("pid-*"))) < 2 and time.monotonic() < ends:
            time.sleep(0.1)
        assert len(pids) == 2
    finally:
        caller.send_signal(number)
        caller.wait(60)
    left = [int(path.name.removeprefix("pid-")) for path in pids]
    ends = time.monotonic() + 20
    while left and time.monotonic() < ends:
        time.sleep(0.1)
        left = [pid for pid in left if is_alive(pid)]
    assert not left


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
