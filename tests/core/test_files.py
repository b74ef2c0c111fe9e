import hashlib
import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest
from _internals import (
    DataError,
    InvalidValue,
    Records,
    RunConflict,
    file_hash,
    is_temporary,
    locked_folder,
    read_json,
    write_atomically,
    write_json,
)


def test_a_crash_while_writing_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "c"
    write_atomically(path, b"old")

    def crash(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", crash)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, json.dumps("new").encode())
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize(
    "name", ["report.html", "model.safetensors", "config.json", "p.csv", "exported.json"]
)
def test_links_beside_or_at_the_target_are_not_followed(tmp_path, monkeypatch, name):
    precious = tmp_path / "precious"
    precious.write_text("keep")
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / name
    (folder / f"{name}.new").symlink_to(precious)
    path.symlink_to(precious)
    write_atomically(path, b"new")
    assert precious.read_text() == "keep"
    assert path.read_bytes() == b"new"
    assert not path.is_symlink()
    # Even one that guesses the temporary name.
    monkeypatch.setattr(secrets, "token_hex", lambda size: "guessed")
    (folder / ".shiftproof-guessed.new").symlink_to(precious)
    with pytest.raises(FileExistsError) as caught:
        write_atomically(path, b"newer")
    assert caught.value.filename == str(path)
    assert (precious.read_text(), path.read_bytes()) == ("keep", b"new")


def test_temporary_names_differ_and_are_told_from_content(tmp_path, monkeypatch):
    names = []

    def killed(source, target):
        names.append(source)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            write_atomically(tmp_path / "a", b"")
    assert len(set(names)) == 2
    assert all(map(is_temporary, names))
    assert not any(map(is_temporary, [tmp_path / "a", tmp_path / "a.new", tmp_path / ".new"]))
    assert list(tmp_path.iterdir()) == []


def test_a_new_file_has_the_permissions_that_the_user_wants(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "a", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_records_are_not_appended_through_a_link(tmp_path):
    (tmp_path / "precious").write_text("keep")
    (tmp_path / "records.jsonl").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic links"):
        Records(tmp_path / "records.jsonl").append({"step": 1})
    assert (tmp_path / "precious").read_text() == "keep"


def test_a_folder_is_not_overwritten(tmp_path):
    with pytest.raises(InvalidValue, match="is a folder; name a file to write"):
        write_atomically(tmp_path, b"")


def test_json_is_read_as_it_was_written(tmp_path):
    value = {"β": [1, 0.1 + 0.2, None], "nested": {"a": True}}
    write_json(tmp_path / "a.json", value)
    assert read_json(tmp_path / "a.json", ["β"]) == value
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize(
    "content", [None, b"", b"{", b"[]", b"7", b"\xff", b'{"format": 2, "a": 1}']
)
def test_what_is_no_such_object_is_one_line_with_the_remedy(tmp_path, content):
    path = tmp_path / "a.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_json(path, ("a", "b"), "write it again")
    assert str(caught.value) == (
        f"{path} is missing or damaged: expected a JSON object with a, b; write it again"
    )


@pytest.mark.parametrize("algorithm", ["sha256", "md5"])
def test_the_hash_of_a_file_is_that_of_its_bytes(tmp_path, algorithm):
    (tmp_path / "a").write_bytes(b"abc" * 100_000)
    expected = hashlib.new(algorithm, b"abc" * 100_000).hexdigest()
    assert file_hash(tmp_path / "a", algorithm) == expected


def test_one_holder_a_folder_at_a_time(tmp_path):
    folder = tmp_path / "new" / "run"

    def hold(path):
        with locked_folder(path, "busy"):
            pass

    for _ in range(2):
        with locked_folder(folder, "busy"), pytest.raises(RunConflict, match="busy"):
            hold(folder)
    (tmp_path / "file").touch()
    with pytest.raises(RunConflict, match="is a file; `out` must be a folder"):
        hold(tmp_path / "file")


def test_a_deleted_lock_lets_nobody_in(tmp_path: Path) -> None:
    """Another process may delete the file; the folder itself is still locked."""
    attempt = (
        "import sys; from pathlib import Path; from shiftproof.core.files import locked_folder\n"
        "with locked_folder(Path(sys.argv[1]), 'busy'): print('in')"
    )
    command = [sys.executable, "-c", attempt, str(tmp_path / "run")]
    with locked_folder(tmp_path / "run", "busy"):
        (tmp_path / "run" / "lock").unlink()
        second = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert second.stdout == ""
    assert "RunConflict: busy" in second.stderr
    third = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert third.stdout == "in\n"
