import hashlib
import json
import os

import pytest

from shiftproof.core.errors import DataError, InvalidValue, RunConflict
from shiftproof.core.files import (
    file_hash,
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


def test_a_folder_is_not_overwritten(tmp_path):
    with pytest.raises(InvalidValue, match="is a folder; name a file to write"):
        write_atomically(tmp_path, b"")


def test_json_is_read_as_it_was_written(tmp_path):
    value = {"β": [1, 0.1 + 0.2, None], "nested": {"a": True}}
    write_json(tmp_path / "a.json", value)
    assert read_json(tmp_path / "a.json", ["β"]) == value
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b"7", b"\xff", b'{"a": 1}'])
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
