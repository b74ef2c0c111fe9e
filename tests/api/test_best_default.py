"""What `train` takes by default, and the outputs that a run keeps."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from _internals import LinearCandidate, Observer, learners_best as best
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

import shiftproof

COLUMNS = {"label": "ill", "domain": "ward"}


def wards(n: int = 90) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    ill = rng.integers(0, 2, n)
    ward = np.array(["a", "b", "c"])[rng.integers(0, 3, n)]
    return pd.DataFrame({"x": rng.normal(size=n) + ill, "ill": ill, "ward": ward})


@pytest.fixture(scope="module")
def each(tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp("runs")
    return shiftproof.train_each(wards(), hparams={"budget": 0.3}, out=out, **COLUMNS)


def test_rows_get_best_and_images_automatic_strength(each, tmp_path):
    assert each.runs[0].config.algorithm == "best"
    images = np.random.default_rng(0).random((24, 1, 8, 8)).astype(np.float32)
    data = (images, np.arange(24) % 2, np.repeat(["a", "b", "c"], 8))
    run = shiftproof.train(data, test_domains="c", steps=1, out=tmp_path, backbone="mlp")
    assert run.config.algorithm == "idm-auto"


def test_outputs_are_those_of_all_rows_of_the_held_out_domain_in_their_order(each):
    table = wards()
    for run in each.runs:
        (domain,) = run.config.test_domains
        rows = table[table.ward == domain]
        own = run.outputs[domain]
        assert own.rows.tolist() == list(range(len(rows)))
        assert own.labels.tolist() == rows.ill.tolist()
        model = run.model
        again = model.predict(model.form.read(rows.drop(columns=["ill", "ward"]))).probabilities
        assert own.probabilities == pytest.approx(again, abs=1e-6)


def test_the_json_has_the_scores_of_scikit_learn(each):
    told = each.to_dict()
    runs = told["runs"]
    for run, one in zip(each.runs, runs, strict=True):
        own = run.outputs[one["test_domains"][0]]
        second = own.probabilities[:, 1]
        metrics = one["metrics"]
        assert metrics["accuracy"] == pytest.approx(accuracy_score(own.labels, second > 0.5))
        assert metrics["auroc"] == pytest.approx(roc_auc_score(own.labels, second))
        assert metrics["log_loss"] == pytest.approx(log_loss(own.labels, second))
    losses = [one["metrics"]["log_loss"] for one in runs]
    aurocs = [one["metrics"]["auroc"] for one in runs]
    assert told["mean"]["auroc"] == pytest.approx(np.mean(aurocs))
    assert (told["worst"]["auroc"], told["worst"]["log_loss"]) == (min(aurocs), max(losses))
    assert told["seconds"] == pytest.approx(sum(one["seconds"] for one in runs), abs=0.01)


def test_candidates_beyond_the_budget_are_named(each):
    last = each.runs[0].metrics
    names = {member["name"] for member in last["members"]}
    assert "linear, default penalty" in names
    assert "forest" in last["excluded"]
    assert not names & set(last["excluded"])


def test_a_fit_that_is_stopped_starts_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    few = [LinearCandidate(), LinearCandidate("strong", (1.0,))]
    monkeypatch.setattr(best, "portfolio", lambda samples: few)

    class Impatient(Observer):
        def progress(self, what: str, done: int, total: int) -> None:
            if "judging" in what and done == 1:
                signal.raise_signal(signal.SIGINT)

    settings: dict[str, Any] = {"test_domains": "a", "out": tmp_path / "run"}
    stopped = shiftproof.train(wards(), observer=Impatient(), **settings, **COLUMNS)
    assert (stopped.status, stopped.step) == ("stopped", 0)
    finished = shiftproof.train(wards(), **settings, **COLUMNS)
    whole = shiftproof.train(wards(), **{**settings, "out": tmp_path / "whole"}, **COLUMNS)
    assert finished.status == "finished"
    assert finished.records == whole.records
