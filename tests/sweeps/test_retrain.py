"""Retraining against a run made apart."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from _internals import DataError, FittedColumns, InvalidValue, UnknownName, read_checkpoint, train

from shiftproof import TrainedModel, report, sweep

PLACES = ("north", "south", "west")


def write_table(path):
    """A table of three places."""
    rng = np.random.default_rng(0)
    rows = []
    for place in PLACES:
        y = rng.integers(2, size=40)
        x = y + rng.normal(size=(2, 40))
        rows += [f"{place},{a:.3f},{b:.3f},{label}" for a, b, label in zip(*x, y, strict=True)]
    path.write_text("\n".join(["place,a,b,label", *rows]) + "\n")
    return path


ASKED = {"algorithms": "erm", "preset": "lite", "n_hparams": 2, "trials": 1, "steps": 8,
         "domain": "place", "test_domains": "west", "device": "cpu"}  # fmt: skip


def test_from_a_sweep_to_its_report(tmp_path, jobs_here):
    table = write_table(tmp_path / "toy.csv")
    asked = ASKED | {"retrain": True, "average": "ema", "test_domains": (), "out": tmp_path / "out"}
    asked |= {"selection": ("training-domain", "oracle")}
    runs = sweep(table, **asked)
    cells = {(result.selection, result.test_domain) for result in runs.retrained}
    assert cells == {(name, place) for name in asked["selection"] for place in PLACES}
    frame = runs.report(selection="retrained").to_frame().set_index(["algorithm", "test_domain"])
    for result in runs.retrained:
        mean = frame.loc[(result.row, result.test_domain), "mean"]
        assert mean == pytest.approx(100 * result.accuracy)
    rows = {result.row for result in runs.retrained}
    assert rows == {"ERM, retrained", "ERM, retrained (oracle)"}
    everything = runs.report()
    selected = everything.to_frame().query("selector == 'training-domain'")
    assert [*frame.loc["erm", "mean"]] == [*selected["mean"]]
    assert len(everything.runs) == 6  # not the retrained ones
    assert "Retrained on all samples" in everything.page()
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("model.*")}
    assert sweep(table, **asked).retrained == runs.retrained
    assert {path: path.stat().st_mtime_ns for path in files} == files


def test_retraining_is_the_selected_run_with_nothing_held_out(tmp_path, jobs_here):
    table = write_table(tmp_path / "toy.csv")
    found = sweep(table, **ASKED, selection="training-domain", out=tmp_path / "out", retrain=True)
    (result,) = found.retrained
    selected = found.report().selected_runs().iloc[0]
    (job,) = [job for job in found.plan.jobs if job.hparams_seed == selected["hparams_seed"]]
    config = replace(
        job.config, steps=int(selected["step"]), holdout=0.0, evaluate=("test-in",), eval_every=0
    )
    data = job.data.load(0)
    train(config, data, tmp_path / "apart")
    assert [len(split.out) for split in config.splits(data)] == [0, 0, 0]
    run = tmp_path / "out" / result.run
    state, apart = read_checkpoint(run), read_checkpoint(tmp_path / "apart")
    ours, theirs = (each["algorithm"]["modules"] for each in (state, apart))
    assert all(torch.equal(ours[name], value) for name, value in theirs.items())
    model = TrainedModel.load(run)
    index = job.config.splits(data)[2].in_
    data = data.prepared(FittedColumns.from_json(apart["preparation"]))
    predicted = model.predict(data.domains[2].x[index]).predicted
    assert result.accuracy == (predicted == data.domains[2].label_array[index]).mean()


@pytest.mark.parametrize("algorithm", ["linear", "erm"])
def test_the_score_is_that_of_the_saved_model(tmp_path, jobs_here, algorithm):
    table = write_table(tmp_path / "toy.csv")
    asked = ASKED | {"algorithms": algorithm, "n_hparams": 1, "retrain": True}
    runs = sweep(table, **asked, selection="training-domain", out=tmp_path / "out")
    (result,) = runs.retrained
    (job,) = runs.plan.jobs
    data = job.data.load(0)
    index = job.config.splits(data)[2].in_
    model = TrainedModel.load(tmp_path / "out" / result.run)
    rows = [line.split(",")[1:3] for line in table.read_text().splitlines() if "west" in line]
    inputs = np.array(rows, dtype=np.float64)[index]
    predicted = model.predict(inputs).predicted
    assert result.accuracy == (predicted == data.domains[2].label_array[index]).mean()


def test_retrained_runs_in_a_folder_of_that_name_are_read(tmp_path, jobs_here):
    table = write_table(tmp_path / "toy.csv")
    sweep(table, **ASKED | {"n_hparams": 1}, out=tmp_path / "retrained")
    (tmp_path / "retrained/sweep.json").unlink()
    assert len(report(tmp_path).runs) == 1
    with pytest.raises(DataError, match="has no retrained runs; make them with `retrain`"):
        report(tmp_path, selection="retrained")


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"retrain": True, "preset": "table1"}, InvalidValue, "trains on all samples already"),
        ({"retrain": True, "average": "swad"}, InvalidValue, "holds none out; use none or ema"),
        ({"retrain": True, "average": "emma"}, UnknownName, "did you mean 'ema'"),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else "",
)  # fmt: skip
def test_mistakes_are_told_before_anything_runs(tmp_path, changes, error, message):
    table = write_table(tmp_path / "toy.csv")
    with pytest.raises(error, match=message):
        sweep(table, **ASKED | changes, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_command_line_retrains(shiftproof, tmp_path, jobs_here):
    table = write_table(tmp_path / "toy.csv")
    command = ["sweep", table, "--domain", "place", "--algorithms", "erm", "--preset", "lite",
               "--steps", 4, "--n-hparams", 2, "--trials", 1, "--test-domain", "west", "--quiet",
               "--device", "cpu", "--out", tmp_path / "out"]  # fmt: skip
    code, _, err = shiftproof(*command, "--retrain")
    assert code == 0, err
    _, out, _ = shiftproof("report", tmp_path / "out", "--selection", "retrained")
    assert "\nERM, retrained " in out
