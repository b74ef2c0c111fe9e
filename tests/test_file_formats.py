"""Files say the version of their format; newer ones are refused, older ones are read."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from _internals import (
    FORMAT,
    KEY,
    DataError,
    _read,
    _shard,
    load_outputs,
    load_state,
    read_archive,
    read_json,
    save_state,
    without_format,
    write_json,
)
from safetensors import safe_open
from safetensors.torch import load_file, save_file

OLD = Path(__file__).parent / "golden" / "v0.1"
TENSORS = ("checkpoint.safetensors", "held_out.safetensors")
NEWER = rf"has format {FORMAT + 1}, of a newer version of Shiftproof; this one reads formats up to"


def header(path: Path) -> dict[str, str]:
    with safe_open(path, framework="pt") as file:
        found: dict[str, str] = file.metadata()
    return found


def make_newer(path: Path) -> None:
    """Raise the version of a file by one."""
    if path.suffix == ".json":
        path.write_text(json.dumps(json.loads(path.read_bytes()) | {KEY: FORMAT + 1}))
    else:
        save_file(load_file(path), path, header(path) | {KEY: str(FORMAT + 1)})


def test_a_json_file_begins_with_its_format(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"a": 1})
    assert list(json.loads((tmp_path / "a.json").read_bytes()).items()) == [(KEY, 1), ("a", 1)]
    assert read_json(tmp_path / "a.json", ["a"]) == {"a": 1}
    make_newer(tmp_path / "a.json")
    with pytest.raises(DataError, match=NEWER):
        read_json(tmp_path / "a.json")


def test_a_file_without_format_is_read_and_odd_formats_are_refused() -> None:
    assert without_format({"a": 1}, "it") == {"a": 1}
    for odd in ("", "one", -1, 1.5, True, [], {}, "²", 10**400, "9" * 5000):
        with pytest.raises(DataError, match="its format is not a version number") as error:
            without_format({KEY: odd}, "it")
        assert len(str(error.value)) < 100


def test_every_file_of_a_run_says_its_format(tmp_path: Path, shiftproof: Any) -> None:
    run = tmp_path / "run"
    code, _, err = shiftproof(
        "train", OLD / "patients.csv", "--label", "ill", "--domain", "site", "--algorithm", "erm",
        "--test-domain", "east", "--steps", 3, "--out", run, "--quiet",
    )  # fmt: skip
    assert code == 0, err
    for name in ("config.json", "done.json"):
        assert json.loads((run / name).read_bytes())[KEY] == FORMAT
        assert read_json(run / name).keys() >= {"status", "step"} or name == "config.json"
    for name in TENSORS:
        assert header(run / name)[KEY] == str(FORMAT)
    model = json.loads(next(v for v in header(run / "model.safetensors").values() if "{" in v))
    assert isinstance(model["format"], int)
    assert load_outputs(run / "held_out.safetensors")
    for name in ("config.json", "done.json"):
        newer = Path(shutil.copytree(run, tmp_path / f"newer {name}"))
        make_newer(newer / name)
        code, _, err = shiftproof("report", newer)
        assert (code, err.count("\n")) == (2, 1)
        assert f"{name} has format {FORMAT + 1}" in err
    for name in TENSORS:
        make_newer(run / name)
        with pytest.raises(DataError, match=NEWER):
            load_state(run / name)


def test_a_state_without_format_is_read(tmp_path: Path) -> None:
    save_state(tmp_path / "a", {"x": torch.ones(2)})
    described = header(tmp_path / "a")
    del described[KEY]
    save_file(load_file(tmp_path / "a"), tmp_path / "a", described)
    state = load_state(tmp_path / "a")
    assert state is not None
    assert state["x"].tolist() == [1, 1]


def test_an_archive_says_its_format(tmp_path: Path, shiftproof: Any) -> None:
    path = tmp_path / "runs.jsonl.gz"
    code, _, err = shiftproof("report", OLD / "sweep", "--format", "records", "--out", path)
    assert code == 0, err
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    assert {line[KEY] for line in lines} == {FORMAT}
    assert len(read_archive(path)) == len(lines)
    older = "".join(json.dumps({k: v for k, v in x.items() if k != KEY}) + "\n" for x in lines)
    path.write_bytes(gzip.compress(older.encode()))
    assert len(read_archive(path)) == len(lines)
    path.write_bytes(gzip.compress(json.dumps(lines[0] | {KEY: FORMAT + 1}).encode()))
    with pytest.raises(DataError, match=f"line 1 {NEWER}"):
        read_archive(path)


def test_cached_features_of_a_newer_version_are_computed_again(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(_shard(torch.ones(3, 2)))
    assert header(path)[KEY] == str(FORMAT)
    assert _read(path, 3) is not None
    make_newer(path)
    assert _read(path, 3) is None
