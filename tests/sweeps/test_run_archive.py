"""Runs in one file: what a folder says and nothing less, the same bytes each time."""

import gzip
import json
import shutil

import pytest
from _internals import (
    DataError,
    read_archive,
    read_planned_runs,
    read_sweep,
    write_archive,
    write_json,
)
from stored_runs import write_stored_run

DOMAINS = ["dark", "bright", "noisy"]


@pytest.fixture
def sweep(tmp_path):
    """Three runs: one finished, one diverged, and one that failed before its first step."""
    for seed, status in enumerate(("finished", "diverged", "failed")):
        folder = tmp_path / "sweep/runs" / str(seed)
        place = {
            "dataset": "mine", "algorithm": "idm", "domains": DOMAINS, "test_domains": ["noisy"],
            "hparams_seed": seed, "trial_seed": 0,
        }  # fmt: skip
        if status == "failed":
            folder.mkdir(parents=True)
            write_json(folder / "job.json", place)
            write_json(folder / "failed.json", {"title": "a run", "reason": "?", "trace": ""})
            continue
        config = {k: place[k] for k in ("dataset", "algorithm", "test_domains")} | {"seed": seed}
        records = [{"step": 1, "loss": 0.1 + 0.2, "accuracy": {"dark/out": 1 / 3, "noisy/in": 0.5}}]
        if status == "diverged":
            records.append({"step": 2, "event": "diverged"})
        write_stored_run(folder, config, records, place, status, 2.5, {"threads": 1})
    return tmp_path / "sweep"


def test_a_file_says_of_runs_what_their_folders_say(sweep, tmp_path):
    outcomes = read_sweep(sweep)
    path = tmp_path / "runs.jsonl.gz"
    assert write_archive(read_planned_runs(sweep), path) == 3
    found = read_sweep(path)
    for ours, theirs in zip(outcomes, found, strict=True):
        assert ours.key == theirs.key
        assert (ours.status, ours.evaluations) == (theirs.status, theirs.evaluations)
        assert theirs.folder == path
    line = json.loads(gzip.decompress(path.read_bytes()).splitlines()[0])
    assert line["records"][0]["loss"] == 0.1 + 0.2
    assert (line["seconds"], line["config"]["seed"]) == (2.5, 0)


def test_the_same_runs_make_the_same_bytes_wherever_they_lie(sweep, tmp_path):
    write_archive(read_planned_runs(sweep), tmp_path / "a")
    shutil.move(sweep, tmp_path / "elsewhere")
    write_archive(read_planned_runs(tmp_path / "elsewhere"), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert str(tmp_path).encode() not in gzip.decompress((tmp_path / "a").read_bytes())


@pytest.mark.parametrize("format_", ["records", "domainbed"])
def test_a_row_keeps_its_name_from_folder_to_file_and_back(shiftproof, sweep, tmp_path, format_):
    for run in (sweep / "runs").iterdir():
        job = json.loads((run / "job.json").read_text())
        (run / "job.json").write_text(json.dumps(job | {"variant": "idm[order=1]"}))
    outcomes = read_sweep(sweep)
    assert {outcome.algorithm for outcome in outcomes} == {"idm[order=1]"}
    path = tmp_path / "runs"
    code, _, err = shiftproof("report", sweep, "--format", format_, "--out", path)
    assert code == 0, err
    assert ("warning: 1 exported run did not evaluate" in err) == (format_ == "domainbed")
    kept = {outcome.key: outcome for outcome in read_sweep(path)}
    statuses = ("finished", "diverged", "failed") if format_ == "records" else ("finished",)
    assert kept.keys() == {outcome.key for outcome in outcomes if outcome.status in statuses}
    if format_ == "records":
        assert {outcome.config["algorithm"] for outcome in kept.values()
                if outcome.config} == {"idm"}  # fmt: skip
    asked = ("--selection", "training-domain", "--format", "csv")
    _, table, _ = shiftproof("report", path, *asked)
    assert "mine,idm[order=1],noisy,training-domain" in table


RUN = {
    "dataset": "m", "algorithm": "erm", "domains": ["a", "b"], "test_domains": ["b"],
    "hparams_seed": 0, "trial_seed": 0, "status": "finished", "records": [], "seconds": 1.0,
    "environment": {}, "config": {}, "format": 2,
}  # fmt: skip


def one(**changed):
    """A file of one run, changed."""
    return gzip.compress(json.dumps(RUN | changed).encode())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not compressed", "is not a readable file of runs"),
        (gzip.compress(b'{"dataset": '), "is not a readable file of runs"),
        (gzip.compress(json.dumps(RUN).encode())[:-9], "is not a readable file of runs"),
        (gzip.compress(b"\xff\n"), "is not a readable file of runs"),
        (gzip.compress(b"[]\n"), "line 1 is not a run of a sweep"),
        (one(config=5), "config must be an object"),
        (
            one(records=[{"step": 1, "accuracy": {"a/in": "x"}}]),
            r"accuracy of step 1.*must be a finite float",
        ),
        (one(status="fine"), "status must be one of .*finished"),
        (one(test_domains=["c"]), "holds out 'c'"),
    ],
    ids=[
        "plain",
        "broken line",
        "cut short",
        "not text",
        "list",
        "settings",
        "accuracy",
        "status",
        "test domain",
    ],
)
def test_damaged_files_are_named(tmp_path, content, message):
    path = tmp_path / "runs.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as error:
        read_archive(path)
    assert "\n" not in str(error.value)


def test_the_command_line_packs_and_reads(shiftproof, sweep, tmp_path):
    path = tmp_path / "runs.jsonl.gz"
    code, out, _ = shiftproof("report", sweep, "--format", "records", "--out", path)
    assert (code, out) == (0, f"{path}: 3 runs\n")
    asked = ("--selection", "training-domain", "--format", "csv")
    assert shiftproof("report", path, *asked) == shiftproof("report", sweep, *asked)
