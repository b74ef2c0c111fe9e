"""Stored files: each format has an example of every kind, which is read; other formats are refused.

The examples in `golden/formats/N` were written in format N, by `tools/stored_examples.py`.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from _internals import (
    DataError,
    Records,
    RunFolder,
    _read,
    _shard,
    current,
    load_outputs,
    load_state,
    migrations,
    read_archive,
    read_json,
    read_run,
    save_state,
    train,
    trained_model,
    write_json,
)
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from shiftproof import ShiftproofClassifier, ShiftproofError, load, load_model, report

FORMAT, KEY = migrations.FORMAT, migrations.KEY
GOLDEN = Path(__file__).parent / "golden" / "formats"
TABLE = GOLDEN / "patients.csv"
NUMBERS = range(migrations.OLDEST, FORMAT + 1)
NEWER = rf"has format {FORMAT + 1}, of a newer version of Shiftproof; this one reads formats up to"
NONE = "has no format number: it was written by Shiftproof 0.1 or by another program"
OLDER = "was written by Shiftproof 0.1, and this version reads only newer files"


@pytest.fixture(params=NUMBERS)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the examples of a format, because commands may write into the folder of a run."""
    return Path(shutil.copytree(GOLDEN / str(request.param), tmp_path / "stored"))


# --- every kind of file of every format is read -----------------------------------------------


@pytest.mark.parametrize("name", ["linear", "erm"])
def test_a_model_gives_the_recorded_predictions(
    stored: Path, tmp_path: Path, shiftproof: Any, name: str
) -> None:
    out = tmp_path / "predictions.csv"
    code, _, err = shiftproof("predict", stored / name, TABLE, "--domain", "site", "--out", out)
    assert code == 0, err
    recorded = pd.read_csv(stored / f"predictions-{name}.csv")
    pd.testing.assert_frame_equal(pd.read_csv(out), recorded, rtol=1e-4)


def test_a_finished_run_is_read(stored: Path) -> None:
    ended = RunFolder(stored / "erm").done()
    assert ended is not None
    assert (ended.status, ended.step) == ("finished", 20)
    assert sorted(ended.sha256) == [
        "config.json", "held_out.safetensors", "model.safetensors", "records.jsonl",
    ]  # fmt: skip
    records = Records(stored / "erm" / "records.jsonl").read()
    assert [record["step"] for record in records] == [1, 6, 11, 16, 20]
    assert [*load_outputs(stored / "erm" / "held_out.safetensors")] == ["east"]
    table = load(TABLE, label="ill", domain="site")
    run = read_run(stored / "erm")
    assert trained_model(run, table, stored / "erm").classes == ("no", "yes")


def test_an_unfinished_run_resumes_with_the_same_records(stored: Path) -> None:
    folder = stored / "unfinished"
    before = Records(folder / "records.jsonl").read()
    result = train(read_run(folder), load(TABLE, label="ill", domain="site"), folder)
    assert result.status == "finished"
    assert result.records[: len(before)] == before
    expected = pd.json_normalize(Records(stored / "erm" / "records.jsonl").read())
    pd.testing.assert_frame_equal(pd.json_normalize(result.records), expected, rtol=1e-4)


def test_a_sweep_and_an_archive_of_it_are_read(stored: Path, shiftproof: Any) -> None:
    code, out, err = shiftproof("report", stored / "sweep")
    assert code == 0, err
    code, archived, err = shiftproof("report", stored / "runs.jsonl.gz")
    assert code == 0, err
    for number in ("64.6", "68.8", "61.1", "66.7", "62.5"):
        assert number in out
        assert number in archived
    code, out, err = shiftproof("sweep", "--status", stored / "sweep")
    assert code == 0, err
    assert "6" in out


def test_features_and_an_estimator_are_read(stored: Path) -> None:
    features = _read(stored / "features.safetensors", 3)
    assert features is not None
    assert features.tolist() == [[0, 1], [2, 3], [4, 5]]
    fitted = ShiftproofClassifier.load(stored / "estimator")
    assert fitted.predict([[2.0, 0.0], [-2.0, 0.0]]).tolist() == [True, False]


# --- the format number ------------------------------------------------------------------------


def header(path: Path) -> dict[str, str]:
    with safe_open(path, framework="np") as file:
        metadata: dict[str, str] = file.metadata()
    return metadata


def write_sealed(path: Path, described: dict[str, Any]) -> None:
    """Replace the description in a model file, and its hash."""
    save_file(load_file(path), path, {"shiftproof": json.dumps({**described, "sha256": "0" * 64})})
    data = path.read_bytes()
    path.write_bytes(data.replace(b"0" * 64, hashlib.sha256(data).hexdigest().encode(), 1))


def with_number(path: Path, number: int | None) -> None:
    """Write another format number, or none, into a file."""
    if path.suffix == ".json":
        value = json.loads(path.read_bytes())
        del value[KEY]
        path.write_text(json.dumps(value if number is None else {KEY: number, **value}))
        return
    described = header(path)
    if "shiftproof" in described:
        value = json.loads(described["shiftproof"]) | {KEY: number}
        if number is None:
            del value[KEY]
        write_sealed(path, value)
        return
    del described[KEY]
    save_file(load_file(path), path, described | ({} if number is None else {KEY: str(number)}))


def test_a_json_file_begins_with_its_format(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"a": 1})
    assert list(json.loads((tmp_path / "a.json").read_bytes()).items()) == [(KEY, FORMAT), ("a", 1)]
    assert read_json(tmp_path / "a.json", ["a"]) == {"a": 1}


@pytest.mark.parametrize(
    ("number", "message"), [(FORMAT + 1, NEWER), (1, OLDER), (0, OLDER), (None, NONE)]
)
def test_files_of_other_formats_are_refused_in_one_line(
    tmp_path: Path, shiftproof: Any, number: int | None, message: str
) -> None:
    def refused(error: str) -> bool:
        return message.split(";")[0] in error and error.count("\n") <= 1

    for name in ("config.json", "done.json"):
        run = Path(shutil.copytree(GOLDEN / str(FORMAT) / "erm", tmp_path / name))
        with_number(run / name, number)
        if name == "config.json":
            without_hashes(run)
        code, _, err = shiftproof("report", run)
        assert code == 2
        assert refused(err)
        code, _, err = shiftproof(
            "train", TABLE, "--label", "ill", "--domain", "site", "--out", run, "--quiet",
            "--algorithm", "erm",
        )  # fmt: skip
        assert code == 2
        assert refused(err) or name == "done.json"
    shutil.copytree(GOLDEN / str(FORMAT) / "erm", tmp_path / "run")
    for name in ("checkpoint.safetensors", "held_out.safetensors"):
        with_number(tmp_path / "run" / name, number)
        with pytest.raises(DataError) as error:
            load_state(tmp_path / "run" / name)
        assert refused(str(error.value))
    (tmp_path / "run" / "done.json").unlink()
    with_number(tmp_path / "run" / "model.safetensors", number)
    code, _, err = shiftproof("predict", tmp_path / "run", TABLE)
    assert code == 2
    assert refused(err)


def test_an_archive_says_its_format(tmp_path: Path, shiftproof: Any) -> None:
    path = tmp_path / "runs.jsonl.gz"
    sweep = GOLDEN / str(FORMAT) / "sweep"
    code, _, err = shiftproof("report", sweep, "--format", "records", "--out", path)
    assert code == 0, err
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    assert {next(iter(line.items())) for line in lines} == {(KEY, FORMAT)}
    assert len(read_archive(path)) == len(lines)
    for number, message in ((FORMAT + 1, NEWER), (1, OLDER)):
        path.write_bytes(gzip.compress(json.dumps(lines[0] | {KEY: number}).encode()))
        with pytest.raises(DataError, match=f"line 1 {message}"):
            read_archive(path)


def test_odd_formats_are_refused() -> None:
    for odd in ("", "one", -1, 1.5, True, [], {}, "²", 10**400, "9" * 5000):
        with pytest.raises(DataError, match="its format is not a version number") as error:
            current({KEY: odd}, "config.json", "it")
        assert len(str(error.value)) < 100


def test_an_object_passes_through_each_migration(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after two later formats: a key is renamed, then a key is added for one kind of file."""

    def renamed(kind: str, value: dict[str, Any]) -> dict[str, Any]:
        return {{"old": "new"}.get(name, name): item for name, item in value.items()}

    def added(kind: str, value: dict[str, Any]) -> dict[str, Any]:
        return {**value, "more": 1} if kind == "config.json" else value

    monkeypatch.setattr(migrations, "FORMAT", FORMAT + 2)
    monkeypatch.setattr(migrations, "MIGRATIONS", {FORMAT: renamed, FORMAT + 1: added})
    assert current({KEY: FORMAT, "old": 0}, "config.json", "it") == {"new": 0, "more": 1}
    assert current({KEY: FORMAT + 1, "old": 0}, "config.json", "it") == {"old": 0, "more": 1}
    assert current({KEY: str(FORMAT), "old": 0}, "state", "it") == {"new": 0}


def test_cached_features_of_another_version_are_computed_again(tmp_path: Path) -> None:
    import torch

    path = tmp_path / "a.safetensors"
    path.write_bytes(_shard(torch.ones(3, 2)))
    assert _read(path, 3) is not None
    with_number(path, FORMAT + 1)
    assert _read(path, 3) is None


# --- within a format, what is unknown or has changed is refused ---------------------------------


def changed(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **values}))


def without_hashes(run: Path) -> Path:
    """Remove done.json, so that only the content of the files is checked."""
    (run / "done.json").unlink()
    return run


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("config.json", {"forgotten": 1}),
        ("config.json", {"steps": "20"}),
        ("done.json", {"forgotten": 1}),
        ("done.json", {"status": "asleep"}),
        ("done.json", {"status": "running"}),
        ("job.json", {"forgotten": 1}),
    ],
)
def test_unknown_keys_and_values_are_refused(
    tmp_path: Path, name: str, values: dict[str, Any]
) -> None:
    shutil.copytree(GOLDEN / str(FORMAT) / "sweep", tmp_path / "sweep")
    run = min((tmp_path / "sweep" / "runs").iterdir())
    changed(run / name, **values)
    if name == "config.json":
        without_hashes(run)
    (word,) = {"steps"} & values.keys() or {"status"} & values.keys() or values.keys()
    with pytest.raises(ShiftproofError, match=word) as error:
        report(tmp_path / "sweep")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("key", ["forgotten", "seconds"])
def test_an_unknown_key_of_a_model_is_refused(tmp_path: Path, key: str) -> None:
    run = without_hashes(Path(shutil.copytree(GOLDEN / str(FORMAT) / "erm", tmp_path / "run")))
    path = run / "model.safetensors"
    described = json.loads(header(path)["shiftproof"]) | {key: 1}
    write_sealed(path, described)
    with pytest.raises(ShiftproofError, match=key):
        load_model(run)


def test_each_record_is_checked_while_a_run_is_unfinished(tmp_path: Path) -> None:
    run = Path(shutil.copytree(GOLDEN / str(FORMAT) / "unfinished", tmp_path / "run"))
    path = run / "records.jsonl"
    data = path.read_bytes()
    assert len(Records(path).read()) == data.count(b"\n")
    position = data.index(b'"loss": ') + 10
    other = b"1" if data[position : position + 1] != b"1" else b"2"
    path.write_bytes(data[:position] + other + data[position + 1 :])
    with pytest.raises(ShiftproofError, match="damaged in line 1"):
        Records(path).read()
    path.write_bytes(data[:-5])  # a crash cut the last line off
    assert len(Records(path).read()) == data.count(b"\n") - 1


@pytest.mark.parametrize("name", ["config.json", "records.jsonl", "held_out", "model"])
def test_a_file_that_changed_after_the_end_of_its_run_is_refused(
    tmp_path: Path, shiftproof: Any, name: str
) -> None:
    run = Path(shutil.copytree(GOLDEN / str(FORMAT) / "linear", tmp_path / "run"))
    (path,) = run.glob(f"{name}*")
    if path.suffix == ".json":
        changed(path, seed=1)
    elif path.suffix == ".jsonl":
        records = Records(path).read()
        path.unlink()
        for record in records:
            Records(path).append({**record, "loss": 0.0})
    else:
        arrays = load_file(path)
        first = min(arrays)
        save_file({**arrays, first: arrays[first] + 1}, path, header(path))
    commands = {"model": ("predict", run, TABLE), "held_out": ("expect", tmp_path)}
    code, _, err = shiftproof(*commands.get(name, ("report", run)))
    assert code == 2
    assert f"{path.name} has changed since the run ended" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", ["unfinished", "erm"])
def test_a_checkpoint_that_does_not_fit_is_refused(tmp_path: Path, name: str) -> None:
    """As if the network had changed: torch's own message about it has several lines."""
    run = Path(shutil.copytree(GOLDEN / str(FORMAT) / name, tmp_path / "run"))
    state = load_state(run / "checkpoint.safetensors")
    assert state is not None
    state["algorithm"]["modules"].popitem()
    save_state(run / "checkpoint.safetensors", state)
    table = load(TABLE, label="ill", domain="site")
    with pytest.raises(ShiftproofError, match="does not fit this version") as error:
        trained_model(read_run(run), table, run)
    assert "\n" not in str(error.value)
    if name == "unfinished":
        with pytest.raises(ShiftproofError, match="does not fit this version") as error:
            train(read_run(run), table, run)
        assert "\n" not in str(error.value)
