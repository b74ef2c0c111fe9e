"""Disks and folders that fail while a command works: one line, nothing lost, and it resumes."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from _internals import Records

FORMATS = Path(__file__).parent / "golden" / "formats"
TABLE = FORMATS / "patients.csv"
TRAIN = ["train", TABLE, "--label", "ill", "--domain", "site", "--algorithm", "erm", "--steps",
         "6", "--eval-every", "1", "--test-domain", "north", "--quiet", "--out"]  # fmt: skip


def failing(monkeypatch: pytest.MonkeyPatch, number: int, after: int) -> None:
    """Let every flush to the disk fail after some that work."""
    original, calls = os.fsync, [0]

    def fsync(handle: int) -> None:
        calls[0] += 1
        if calls[0] > after:
            raise OSError(number, os.strerror(number))
        original(handle)

    monkeypatch.setattr(os, "fsync", fsync)


def one_line(err: str) -> str:
    (line,) = [line for line in err.splitlines() if not line.startswith("note:")]
    assert line.startswith("error: ")
    return line


@pytest.mark.parametrize(
    ("number", "after"),
    [
        *((errno.ENOSPC, after) for after in (0, 2, 5, 9)),
        *((number, 4) for number in (errno.EROFS, errno.EDQUOT, errno.EIO)),
    ],
)
def test_a_disk_that_fails_during_training(
    shiftproof: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, after: int
) -> None:
    with monkeypatch.context() as broken:
        failing(broken, number, after)
        code, _, err = shiftproof(*TRAIN, tmp_path / "run")
    assert code == 2
    one_line(err)
    code, _, err = shiftproof(*TRAIN, tmp_path / "run")
    assert code == 0, err
    assert [r["step"] for r in Records(tmp_path / "run" / "records.jsonl").read()] == [*range(1, 7)]
    assert not list((tmp_path / "run").glob(".shiftproof-*"))


def test_a_folder_that_is_removed_during_training(
    shiftproof: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = Records.append

    def removing(self: Records, record: Any) -> None:
        append(self, record)
        if record["step"] == 3:
            shutil.rmtree(tmp_path / "run")

    with monkeypatch.context() as broken:
        broken.setattr(Records, "append", removing)
        code, _, err = shiftproof(*TRAIN, tmp_path / "run")
    assert code == 2
    assert str(tmp_path / "run") in one_line(err)


@pytest.mark.parametrize("name", ["job.json", "config.json", "records.jsonl", "done.json"])
def test_a_run_that_is_removed_while_it_is_reported(
    shiftproof: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Between listing the files and reading them."""
    shutil.copytree(FORMATS / "2" / "sweep", tmp_path / "sweep")
    victim = min((tmp_path / "sweep").rglob(name))
    original = Path.read_bytes

    def vanishing(self: Path) -> bytes:
        if self == victim:
            shutil.rmtree(self.parent, ignore_errors=True)
        return original(self)

    monkeypatch.setattr(Path, "read_bytes", vanishing)
    code, _, err = shiftproof("report", tmp_path / "sweep")
    assert code in (0, 2)
    if code == 2:
        one_line(err)


def test_a_full_disk_leaves_the_old_report(
    shiftproof: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(FORMATS / "2" / "sweep", tmp_path / "sweep")
    page = tmp_path / "sweep" / "report.html"
    page.write_text("old")
    failing(monkeypatch, errno.ENOSPC, 0)
    code, _, err = shiftproof("report", tmp_path / "sweep", "--format", "html")
    assert code == 2
    assert "the disk is full" in one_line(err)
    assert page.read_text() == "old"
