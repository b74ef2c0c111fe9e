"""Selected models are the sweep's own, whichever step was selected."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from _internals import (
    PRESETS,
    SELECTORS,
    DataRequest,
    RunConflict,
    RunFolder,
    SweepData,
    SweepFolder,
    Trainer,
    Variant,
    export_models,
    make_plan,
    read_checkpoint,
    read_sweep,
    run_sweep,
    select_models,
)
from jobs_here import jobs_in_this_process

NAMES = ("training-domain", "oracle")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A sweep of nine runs that overfit: the best step is not always the last."""
    folder = tmp_path_factory.mktemp("chosen")
    rng = np.random.default_rng(0)
    rows = ["place,a,b,c,label"]
    for place in ("north", "south", "west"):
        for _ in range(40):
            y = int(rng.random() < 0.5)
            noise = ",".join(f"{v:.3f}" for v in rng.normal(size=2))
            rows.append(f"{place},{y + rng.normal():.3f},{noise},{y}")
    table = folder / "toy.csv"
    table.write_text("\n".join(rows) + "\n")
    data = SweepData("toy", DataRequest(str(table), domain="place"))
    plan = make_plan(
        [data], [Variant("erm", "erm", {"lr": 0.01}), Variant.plain("idm")], PRESETS["lite"], NAMES,
        n_hparams=2, trials=1, steps=40, device="cpu",
    )  # fmt: skip
    with jobs_in_this_process():
        run_sweep(plan, folder / "sweep")
    return plan, folder / "sweep"


def selected_from(plan, sweep):
    return select_models(plan.jobs, read_sweep(sweep), [SELECTORS.get(name)() for name in NAMES])


def runner(plan, calls):
    def run(jobs, out):
        calls.append(len(jobs))
        with jobs_in_this_process():
            return run_sweep(replace(plan, jobs=tuple(jobs)), out).complete

    return run


def test_the_model_of_every_cell_and_selector(finished, tmp_path):
    plan, sweep = finished
    selected = selected_from(plan, sweep)
    assert len(selected) == 2 * 2 * 3  # selectors, algorithms, test domains
    steps = {model.step for model, _ in selected}
    assert 40 in steps
    assert len(steps) > 1  # else this test shows nothing
    calls = []
    index = export_models(selected, SweepFolder(sweep), tmp_path / "models", runner(plan, calls))
    listed = json.loads(index.read_text())["models"]
    assert [entry["selection"] for entry in listed] == ["training-domain"] * 6 + ["oracle"] * 6
    assert calls == [len({job.id for m, job in selected if m.step < 40})]
    for (model, job), entry in zip(selected, listed, strict=True):
        run = tmp_path / "models" / entry["run"]
        trainer = Trainer(job.config, job.data.load(job.trial_seed))
        for _ in range(model.step):
            trainer.advance()
        kept = read_checkpoint(run)
        assert kept["step"] == model.step
        for name, weight in trainer.algorithm.state_dict().items():
            assert torch.equal(weight, kept["algorithm"]["modules"][name])
        record = RunFolder(run).records.read()[-1]
        assert record["accuracy"][f"{model.test_domain}/in"] == model.accuracy == entry["accuracy"]
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "models/runs").rglob("*.safetensors")}
    export_models(selected, SweepFolder(sweep), tmp_path / "models", runner(plan, calls))
    assert {p: p.stat().st_mtime_ns for p in before} == before


def test_a_sweep_that_says_otherwise_is_not_believed(finished, tmp_path):
    plan, sweep = finished
    selected = selected_from(plan, sweep)
    position = next(i for i, (model, _) in enumerate(selected) if model.step < 40)
    model, job = selected[position]
    lie = [(replace(model, accuracy=model.accuracy + 0.1), job)]
    with pytest.raises(
        RunConflict, match=r"measures .* but the sweep recorded .* run the sweep again"
    ):
        export_models(lie, SweepFolder(sweep), tmp_path / "models", runner(plan, []))
    assert not (tmp_path / "models" / "models.json").exists()


def test_models_do_not_go_into_the_sweep_itself(finished):
    plan, sweep = finished
    for inside in (sweep, sweep / "models", sweep / ".." / Path(sweep.name) / "x"):
        with pytest.raises(RunConflict, match="is inside the sweep; choose another folder"):
            export_models(selected_from(plan, sweep), SweepFolder(sweep), inside, runner(plan, []))
