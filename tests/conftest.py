"""What all tests share.

One thread for every test and every process it starts: the tensors here are small, and two threads
that wait for each other on a busy machine take many times as long as one.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import signal
import sys

import _internals
import pytest


def pytest_addoption(parser):
    parser.addoption(
        "--record",
        action="store_true",
        help="write tests/recorded/expected anew, and compare nothing",
    )


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A place of its own for what outlives a command, and not the user's."""
    monkeypatch.setenv("SHIFTPROOF_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(autouse=True)
def one_process(monkeypatch):
    """Tests run side by side already: what they call starts no further process to be faster."""
    monkeypatch.setattr(_internals.api_parallel, "PATIENCE", 600.0)


@pytest.fixture(scope="module")
def few_trees():
    """Small forests beside studies: 100 trees take longer to grow and store than all the rest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_internals.api_study_baselines, "TREES", 10)
        yield


@pytest.fixture
def jobs_here():
    """Run the jobs of sweeps in this process."""
    from jobs_here import jobs_in_this_process

    with jobs_in_this_process():
        yield


@pytest.fixture
def interruptible():
    """Let Ctrl-C raise KeyboardInterrupt: processes that a shell starts with & ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def shiftproof(monkeypatch, capfd):
    """Run the command in this process; returns (exit code, stdout, stderr)."""
    from _internals import cli_main as main

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["shiftproof", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
        out, err = capfd.readouterr()
        return code, out, err

    return run
