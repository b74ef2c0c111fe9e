"""Links and pipes in the folder of a run, which a stranger may have made: refused, and not read."""

import json
import os

import pytest
from _internals import read_regular

import shiftproof
from shiftproof import ShiftproofError

SECRET = "the password of the house"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run, and a file elsewhere that is none of the run's business."""
    folder = tmp_path_factory.mktemp("stranger")
    rows = ["x,label,site", *(f"{n % 7},{'ab'[n % 2]},{'uvw'[n % 3]}" for n in range(60))]
    (folder / "rows.csv").write_text("\n".join(rows))
    given = {"label": "label", "domain": "site", "test_domains": "u", "device": "cpu"}
    shiftproof.train(folder / "rows.csv", "erm", steps=2, out=folder / "run", **given)
    (folder / "secret").write_text(json.dumps({"password": SECRET}))
    return folder / "run"


def replaced(path, kind, target):
    path.unlink()
    if kind == "link":
        path.symlink_to(target)
    elif kind == "pipe":
        os.mkfifo(path)  # whoever opens it to read waits for ever
    else:
        path.mkdir()


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
@pytest.mark.parametrize("name", ["config.json", "records.jsonl", "done.json"])
@pytest.mark.timeout(60)
def test_a_report_reads_no_link_and_waits_for_no_pipe(run, name, kind):
    path = run / name
    before = path.read_bytes()
    try:
        replaced(path, kind, run.parent / "secret")
        with pytest.raises(
            ShiftproofError, match=rf"{name} is not a regular file but a link, folder, pipe or"
        ):
            shiftproof.report(run)
    finally:
        path.rmdir() if kind == "folder" else path.unlink()
        path.write_bytes(before)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
@pytest.mark.parametrize("name", ["held_out.safetensors", "checkpoint.safetensors"])
@pytest.mark.timeout(60)
def test_tensors_of_a_run_are_read_from_no_link_or_pipe(run, name, kind):
    from _internals import load_state

    path = run / name
    before = path.read_bytes()
    try:
        replaced(path, kind, run.parent / "secret")
        with pytest.raises(
            ShiftproofError, match=rf"{name} is not a regular file but a link, folder, pipe or"
        ):
            load_state(path)
    finally:
        path.rmdir() if kind == "folder" else path.unlink()
        path.write_bytes(before)


def test_a_log_of_domainbed_is_read_from_no_link(tmp_path):
    (tmp_path / "secret").write_text(json.dumps({"password": SECRET}))
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/results.jsonl").symlink_to(tmp_path / "secret")
    with pytest.raises(ShiftproofError, match="is not a regular file but a link") as refused:
        shiftproof.report(tmp_path / "logs")
    assert SECRET not in str(refused.value)


def test_a_regular_file_is_read(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"content")
    assert read_regular(tmp_path / "file") == b"content"
    told = os.stat(tmp_path / "file")
    for size in (0, 2, 6, 9):  # it changes while it is read
        monkeypatch.setattr(
            os, "fstat", lambda _, size=size: os.stat_result((*told[:6], size, *told[7:]))
        )
        assert read_regular(tmp_path / "file") == b"content"
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "none")
