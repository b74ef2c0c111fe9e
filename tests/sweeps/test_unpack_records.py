"""`tools/unpack_records.py`: a sweep takes unpacked runs for its own, and goes on from them."""

import gzip
import json

import pytest
from _internals import (
    PRESETS,
    DataRequest,
    RunConflict,
    SweepData,
    Variant,
    make_plan,
    read_planned_runs,
    run_sweep,
    write_archive,
)

from tools.unpack_records import unpack


def planned(table, *rows, draws=2):
    data = SweepData("toy", DataRequest(str(table), domain="place"))
    return make_plan(
        [data], [Variant.plain(row) for row in rows], PRESETS["lite"],
        ("training-domain", "oracle"), n_hparams=draws, trials=1, steps=3, device="cpu",
    )  # fmt: skip


@pytest.fixture
def plan(table):
    return planned(table, "erm", "sd")


def archived(plan, path, change=None):
    """Write a file of the plan's runs, each with a record of its own."""
    lines = []
    for number, job in enumerate(plan.jobs):
        config = job.config.to_json() | (change or {})
        record = {"step": 3, "loss": 0.1 * number, "accuracy": {"north/in": number / 100}}
        run = {"status": "finished", "seconds": 1.5, "environment": {"threads": 1}}
        lines.append(
            json.dumps({"format": 2, **job.to_json(), **run, "config": config, "records": [record]})
        )
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


def runs_in(path):
    runs = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    for run in runs:
        run.pop("format", None)
    return sorted(runs, key=lambda run: run["records"][0]["loss"])


def test_a_sweep_goes_on_from_unpacked_runs(plan, tmp_path):
    file = archived(plan, tmp_path / "runs.jsonl.gz")
    out = tmp_path / "sweep"
    assert unpack(file, out, "lite", set(), None) == 12
    assert unpack(file, out, "lite", set(), None) == 0
    before = {path: path.read_bytes() for path in out.rglob("*.json*")}
    result = run_sweep(plan, out, workers=1)
    assert result.standing.counts == {"finished": 12}
    assert {path: path.read_bytes() for path in before} == before
    # Packed again they are the same runs.
    write_archive(read_planned_runs(out), tmp_path / "again.jsonl.gz")
    assert runs_in(tmp_path / "again.jsonl.gz") == runs_in(file)


def test_what_is_fitted_at_once_does_not_change_the_settings_of_the_sweep(table, tmp_path):
    plan = planned(table, "erm", "linear", draws=1)
    file = archived(plan, tmp_path / "runs.jsonl.gz")
    assert unpack(file, tmp_path / "sweep", "lite", set(), None) == 6
    assert run_sweep(plan, tmp_path / "sweep", workers=1).standing.counts == {"finished": 6}


def test_rows_and_draws_are_chosen(plan, tmp_path):
    file = archived(plan, tmp_path / "runs.jsonl.gz")
    assert unpack(file, tmp_path / "one", "lite", {"sd"}, 1) == 3
    with pytest.raises(SystemExit, match="none of these runs; it has erm, sd"):
        unpack(file, tmp_path / "none", "lite", {"coral"}, None)


def test_runs_with_other_settings_are_refused_by_the_sweep(plan, tmp_path):
    file = archived(plan, tmp_path / "runs.jsonl.gz", {"hparams": {"lr": 0.5}})
    unpack(file, tmp_path / "sweep", "lite", set(), None)
    with pytest.raises(RunConflict, match="run with other settings"):
        run_sweep(plan, tmp_path / "sweep", workers=1)
