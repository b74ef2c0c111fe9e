"""Combined draws against members computed apart; retraining against a run made apart."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from _internals import (
    FILE,
    PRESETS,
    BatchSampler,
    DataError,
    DataRequest,
    InvalidValue,
    Needs,
    RunConflict,
    SweepData,
    SweepFolder,
    UnknownName,
    Variant,
    build_algorithm,
    combine_draws,
    methods_METHODS as METHODS,
    plan,
    read_checkpoint,
    stream_seed,
    sweeps_run as combine_run,
    train,
    trained_model,
)

from shiftproof import TrainedModel, report, sweep

PLACES = ("north", "south", "west")
NEEDS = Needs(("train-out", "test-in"), every_step=False)


def write_table(path, shuffled=False):
    """A table of three places; ``shuffled`` permutes the labels of the west, the test domain."""
    rng = np.random.default_rng(0)
    rows = []
    for place in PLACES:
        y = rng.integers(2, size=40)
        x = y + rng.normal(size=(2, 40))
        y = np.random.default_rng(1).permutation(y) if shuffled and place == "west" else y
        rows += [f"{place},{a:.3f},{b:.3f},{label}" for a, b, label in zip(*x, y, strict=True)]
    path.write_text("\n".join(["place,a,b,label", *rows]) + "\n")
    return path


def planned(table, *, algorithm="erm", draws=3, shared_start=True, average="none", **hparams):
    data = SweepData("toy", DataRequest(str(table), domain="place"))
    variant = Variant("own", algorithm, hparams) if hparams else Variant.plain(algorithm)
    size = replace(PRESETS["lite"], steps=8, evaluations=1)
    return list(
        plan(
            data, {0: data.load(0)}, [variant], size, hparams_seeds=range(draws), needs=NEEDS,
            test_domains=["west"], device="cpu", shared_start=shared_start, average=average,
        )
    )  # fmt: skip


def trained(jobs, out):
    """Train jobs in this process, as a sweep does in others."""
    folder = SweepFolder(out)
    for job in jobs:
        train(job.config, job.data.load(job.trial_seed), folder.prepare(job))
    return folder


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("combined")
    jobs = planned(write_table(out / "toy.csv"))
    return jobs, trained(jobs, out / "sweep")


def prepared(job, folder):
    """Return the data as the run saw it."""
    data = job.data.load(0)
    state = read_checkpoint(folder.run(job))
    return data.prepared(data.preparation.from_json(state["preparation"]))


def west(job, folder):
    """Return inputs and labels of the test domain's in part."""
    data = prepared(job, folder)
    index = job.config.splits(data)[2].in_
    return data.domains[2].inputs(index), data.domains[2].labels(index).numpy()


def test_draws_that_share_a_start_have_equal_networks_but_other_batches(finished):
    jobs, folder = finished
    task = jobs[0].config.task(prepared(jobs[0], folder))
    starts = [build_algorithm(job.config, task).state_dict() for job in jobs]
    for start in starts[1:]:
        assert all(torch.equal(start[name], value) for name, value in starts[0].items())
    assert len({job.config.seed for job in jobs}) == len({job.config.hparams["lr"] for job in jobs})
    assert len({job.config.seed for job in jobs}) == 3
    apart = planned(folder.path.parent / "toy.csv", shared_start=False, draws=8)
    assert len({job.config.hparams["hidden"] for job in apart}) > 1
    assert all("init_seed" not in job.config.to_json() for job in apart)


@pytest.mark.parametrize("average", ["none", "ema"])
def test_an_ensemble_is_the_mean_of_the_members_probabilities(average, tmp_path):
    jobs = planned(write_table(tmp_path / "toy.csv"), shared_start=False, average=average)
    folder = trained(jobs, tmp_path / "sweep")
    (result,) = combine_draws(jobs, folder, ["ensemble"])
    x, y = west(jobs[0], folder)
    mean = np.zeros((len(y), 2))
    for job in jobs:  # the model file of each has the averaged weights, if there are any
        model = trained_model(job.config, job.data.load(0), folder.run(job))
        with torch.no_grad():
            logits = model.network.algorithm.predict(x).numpy().astype(np.float64)
        exp = np.exp(logits - logits.max(1, keepdims=True))
        mean += exp / exp.sum(1, keepdims=True) / len(jobs)
    assert result.accuracy == np.mean(mean.argmax(1) == y)
    assert result.log_loss == pytest.approx(-np.log(mean[np.arange(len(y)), y]).mean(), abs=1e-12)
    assert result.draws == result.chosen == (0, 1, 2)
    assert result.row == {"none": "ERM, ensemble", "ema": "ERM, ensemble of averages"}[average]


def test_a_soup_of_linear_models_is_the_model_of_the_mean_weights(tmp_path):
    jobs = planned(write_table(tmp_path / "toy.csv"), draws=2, depth=0)
    folder = trained(jobs, tmp_path / "sweep")
    (result,) = combine_draws(jobs, folder, ["uniform-soup"])
    states = [read_checkpoint(folder.run(job))["algorithm"]["modules"] for job in jobs]
    weight, bias = (
        np.mean([state[f"head.{name}"].numpy().astype(np.float64) for state in states], axis=0)
        for name in ("weight", "bias")
    )
    x, y = west(jobs[0], folder)
    logits = x.flatten(1).numpy() @ weight.T + bias
    assert result.accuracy == np.mean(logits.argmax(1) == y)
    margin = logits[:, 1] - logits[:, 0]
    loss = np.mean(np.logaddexp(0, np.where(y == 1, -margin, margin)))
    assert result.log_loss == pytest.approx(loss, abs=1e-6)
    (file,) = (tmp_path / "sweep/combined").rglob("model.safetensors")
    model = TrainedModel.load(file)
    np.testing.assert_allclose(model.network.weights()["head.weight"], weight, atol=1e-7)
    with torch.no_grad():
        np.testing.assert_allclose(model.network.algorithm.predict(x), logits, atol=1e-5)


def test_the_greedy_soup_validates_no_worse_than_its_best_member(finished):
    jobs, folder = finished
    (result,) = combine_draws(jobs, folder, ["greedy-soup"])
    best = 0.0
    for job in jobs:
        record = json.loads((folder.run(job) / "records.jsonl").read_text().splitlines()[-1])
        best = max(best, np.mean([record["accuracy"][f"{d}/out"] for d in ("north", "south")]))
    assert result.validation_accuracy >= best > 0.5


def test_the_labels_of_the_test_domain_choose_nothing(tmp_path):
    found = []
    for name, shuffled in (("a", False), ("b", True)):
        (tmp_path / name).mkdir()
        jobs = planned(write_table(tmp_path / name / "toy.csv", shuffled), draws=4)
        found.append(combine_draws(jobs, trained(jobs, tmp_path / name / "sweep"), METHODS))
    for honest, shuffled in zip(*found, strict=True):
        assert honest.chosen == shuffled.chosen
        assert honest.validation_accuracy == shuffled.validation_accuracy
        assert honest.accuracy != shuffled.accuracy
    assert 1 <= len(found[0][2].chosen) <= 4


def test_a_killed_combination_is_resumed_and_more_draws_are_combined_again(
    finished, tmp_path, monkeypatch
):
    jobs, _ = finished
    folder = trained(jobs, tmp_path / "sweep")
    combined = tmp_path / "sweep" / "combined"

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(combine_run, "save_soup", killed)
        with pytest.raises(KeyboardInterrupt):
            combine_draws(jobs, folder, METHODS)
    assert [path.parent.name.startswith("toy-ensemble") for path in combined.rglob(FILE)] == [True]
    results = combine_draws(jobs, folder, METHODS)
    files = {path: path.stat().st_mtime_ns for path in combined.rglob("*") if path.is_file()}
    assert len(files) == 3 + 2  # results, and the models of two soups
    assert combine_draws(jobs, folder, METHODS) == results
    assert {path: path.stat().st_mtime_ns for path in files} == files
    with monkeypatch.context() as patched:
        patched.setattr(combine_run, "save_soup", killed)
        with pytest.raises(KeyboardInterrupt):
            combine_draws(jobs[:2], folder, ["uniform-soup"])
    # Not the old result beside what may be half of the new one.
    assert not list(combined.glob(f"toy-uniform-soup-*/{FILE}"))
    fewer = combine_draws(jobs[:2], folder, METHODS)
    assert [result.draws for result in fewer] == [(0, 1)] * 3
    assert len(list(combined.rglob(FILE))) == 3


def test_batch_norms_that_were_trained_are_measured_again(tmp_path):
    jobs = planned(write_table(tmp_path / "toy.csv"), algorithm="arm", match_upstream=True, draws=2)
    folder = trained(jobs, tmp_path / "sweep")
    combine_draws(jobs, folder, ["uniform-soup"])
    (file,) = (tmp_path / "sweep/combined").rglob("model.safetensors")
    soup = TrainedModel.load(file).network.weights()
    name = "context.2.running_mean"
    members = [read_checkpoint(folder.run(job))["algorithm"]["modules"][name] for job in jobs]
    assert not torch.equal(*members)
    # The first norm sees W x + b; one batch passes over 32 samples of each domain.
    data, config = prepared(jobs[0], folder), jobs[0].config
    parts = [split.in_ for split in config.splits(data)[:2]]
    size, seed = config.hparams["batch_size"], stream_seed(config.seed, "sampler")
    assert size >= len(parts[0]) == 32
    x = BatchSampler(data.domains[:2], parts, size, seed).batch(0).x.flatten(0, 1).flatten(1)
    expected = (x @ soup["context.1.weight"].T + soup["context.1.bias"]).mean(0)
    np.testing.assert_allclose(soup[name], expected, atol=1e-6)


def test_runs_that_have_not_finished_are_named(finished, tmp_path):
    jobs, _ = finished
    folder = trained(jobs[:1], tmp_path / "sweep")
    with pytest.raises(
        RunConflict, match=r"2 runs .* erm on toy without west, hparams 2, trial 0\)"
    ):
        combine_draws(jobs, folder, ["ensemble"])


def test_draws_that_diverged_are_left_out(finished, tmp_path):
    jobs, _ = finished
    folder = trained(jobs, tmp_path / "sweep")
    ended = folder.run(jobs[1]) / "done.json"
    ended.write_text(json.dumps(json.loads(ended.read_text()) | {"status": "diverged"}))
    (result,) = combine_draws(jobs, folder, ["ensemble"])
    assert result.draws == (0, 2)


def test_algorithms_that_are_fitted_at_once_make_an_ensemble(tmp_path):
    jobs = planned(write_table(tmp_path / "toy.csv"), algorithm="linear", draws=2)
    folder = trained(jobs, tmp_path / "sweep")
    (result,) = combine_draws(jobs, folder, ["ensemble"])
    model = trained_model(jobs[0].config, jobs[0].data.load(0), folder.run(jobs[0]))
    data = jobs[0].data.load(0)
    index = jobs[0].config.splits(data)[2].in_
    # Both draws solve the same problem, so their ensemble is either of them.
    predicted = model.predict(data.domains[2].x[index]).predicted
    assert result.accuracy == (predicted == data.domains[2].labels(index)).double().mean().item()


# --- from the command to the table -----------------------------------------------------------


ASKED = {"algorithms": "erm", "preset": "lite", "n_hparams": 2, "trials": 1, "steps": 8,
         "domain": "place", "test_domains": "west", "device": "cpu"}  # fmt: skip


def test_from_a_sweep_to_its_report(tmp_path, jobs_here):
    table = write_table(tmp_path / "toy.csv")
    asked = ASKED | {"combine": METHODS, "shared_start": True, "retrain": True, "average": "ema"}
    asked |= {"test_domains": (), "selection": "training-domain", "out": tmp_path / "out"}
    found = sweep(table, **asked)
    cells = [(result.method, result.test_domain) for result in found.combined]
    assert cells[:9] == [(method, place) for place in PLACES for method in METHODS]
    assert cells[9:] == [("retrained", place) for place in PLACES]
    frame = found.report(selection="combined").to_frame().set_index(["algorithm", "test_domain"])
    for result in found.combined:
        mean = frame.loc[(result.row, result.test_domain), "mean"]
        assert mean == pytest.approx(100 * result.accuracy)
    rows = ["ERM, ensemble of averages", "ERM, greedy soup", "ERM, retrained", "ERM, uniform soup"]
    assert sorted({result.row for result in found.combined}) == rows
    everything = found.report()
    selected = everything.to_frame().query("selector == 'training-domain'")
    assert [*frame.loc["erm", "mean"]] == [*selected["mean"]]
    assert len(everything.runs) == 6  # not the retrained ones
    assert "With combined draws" in everything.page()
    assert sweep(table, **asked).combined == found.combined


def test_retraining_is_the_selected_run_with_nothing_held_out(tmp_path, jobs_here):
    table = write_table(tmp_path / "toy.csv")
    found = sweep(table, **ASKED, selection="training-domain", out=tmp_path / "out", retrain=True)
    (result,) = found.combined
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
    data = data.prepared(data.preparation.from_json(apart["preparation"]))
    predicted = model.predict(data.domains[2].x[index]).predicted
    assert result.accuracy == (predicted == data.domains[2].labels(index)).double().mean().item()


def test_retrained_runs_in_a_folder_of_that_name_are_read(finished, tmp_path):
    jobs, _ = finished
    trained(jobs[:1], tmp_path / "retrained")
    assert len(report(tmp_path).runs) == 1
    with pytest.raises(DataError, match="has no combined draws; make them with `combine`"):
        report(tmp_path, selection="combined")


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"combine": "ensembel"}, UnknownName, "did you mean 'ensemble'"),
        ({"combine": "ensemble", "n_hparams": 1}, InvalidValue,
         "`combine` needs at least 2 draws, but `n_hparams=1` makes one"),
        ({"combine": "uniform-soup"}, InvalidValue,
         "all draws must start from the same weights; set `shared_start"),
        ({"combine": "greedy-soup", "algorithms": ("erm", "linear"), "shared_start": True},
         InvalidValue, "averages weights, but linear has none; use"),
        ({"combine": "greedy-soup", "preset": "table1", "shared_start": True}, InvalidValue,
         "table1 holds none out; use ensemble or uniform-soup"),
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


def test_the_command_line_takes_several_and_speaks_options(shiftproof, tmp_path, jobs_here):
    table = write_table(tmp_path / "toy.csv")
    command = ["sweep", table, "--domain", "place", "--algorithms", "erm", "--preset", "lite",
               "--steps", 4, "--n-hparams", 2, "--trials", 1, "--test-domain", "west", "--quiet",
               "--device", "cpu", "--out", tmp_path / "out"]  # fmt: skip
    code, _, err = shiftproof(*command, "--combine", "uniform-soup")
    assert code == 2
    assert "set --shared-start, with another --out if the sweep has begun" in err
    methods = ["--combine", "ensemble,uniform-soup", "--combine", "greedy-soup"]
    code, _, err = shiftproof(*command, *methods, "--shared-start")
    assert code == 0, err
    _, out, _ = shiftproof("report", tmp_path / "out", "--selection", "combined")
    for row in ("ERM, ensemble", "ERM, uniform soup", "ERM, greedy soup"):
        assert f"\n{row} " in out
