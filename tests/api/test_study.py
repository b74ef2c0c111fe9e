"""One call from the data to a model, what to expect of it, and a page."""

from __future__ import annotations

import importlib
import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from _internals import (
    DataError,
    InvalidValue,
    Observer,
    RunConflict,
    inputs_of,
    read_evidence,
    stored_baselines,
    stored_diagnosis,
)

import shiftproof

study_module = importlib.import_module("shiftproof.api.study")
COLUMNS = {"label": "ill", "domain": "ward"}
pytestmark = pytest.mark.usefixtures("few_trees")


def wards(n: int = 120, names: str = "abc") -> pd.DataFrame:
    rng = np.random.default_rng(0)
    ill = rng.integers(0, 2, n)
    ward = np.array(list(names))[np.arange(n) % len(names)]
    return pd.DataFrame({"x": rng.normal(size=n) + 2 * ill, "ill": ill, "ward": ward})


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory, few_trees: None) -> Any:
    out = tmp_path_factory.mktemp("study")
    return shiftproof.study(wards(), "linear", out=out, **COLUMNS)


def test_it_is_what_the_single_verbs_give(studied, tmp_path):
    each = shiftproof.train_each(wards(), "linear", out=tmp_path / "each", **COLUMNS)
    assert studied.held_out.scores == each.scores
    final = shiftproof.train(wards(), "linear", out=tmp_path / "all", **COLUMNS)
    new = studied.final.model.form.read(wards()[["x"]])
    ours, theirs = (run.model.predict(new).probabilities for run in (studied.final, final))
    assert (ours == theirs).all()
    alone = shiftproof.diagnose(wards(), **COLUMNS)
    assert studied.diagnosis.shifts == alone.shifts


def test_the_folder_has_everything(studied):
    folder = studied.folder
    names = sorted(path.name for path in (folder / "held-out").iterdir())
    assert names == ["a", "b", "c"]
    assert studied.final.config.test_domains == ()
    for place in (folder, folder / "model"):
        assert shiftproof.load_model(place).domains == ("a", "b", "c")
        assert list(shiftproof.ShiftproofClassifier.load(place).domains_) == ["a", "b", "c"]
    assert repr(shiftproof.load_model(folder)) == (
        "TrainedModel('linear' on 'table', classes=('0', '1'), domains=('a', 'b', 'c'))"
    )
    assert json.loads((folder / "diagnosed.json").read_text())
    page = studied.page.read_text()
    assert studied.page == folder / "report.html"
    assert 'id="shift-h"' in page
    assert "<title>table: what to expect at the next ward" in page
    assert "Random forest" in page
    assert "Logistic regression" in page
    again = shiftproof.report(folder)
    assert again.page("shiftproof study") == page
    assert again.save() == studied.page


def test_errors_and_shares_are_those_of_the_data(studied):
    found = read_evidence(studied.folder / "study.json")
    assert (found.noun, found.label, found.rows, found.columns) == ("ward", "ill", 120, 1)
    table = wards()
    wrong = []
    for domain, own in studied.held_out.outputs.items():
        x = table[table.ward == domain].x.to_numpy()
        for p, label, row in zip(*own, strict=True):
            if p.argmax() != label:
                wrong.append((p.max(), domain, row + 1, f"{x[row]:.6g}"))
    wrong.sort(reverse=True)
    assert [(e.domain, e.row, e.cells[0][1]) for e in found.errors] == [w[1:] for w in wrong[:8]]
    (column,) = found.shifted
    assert list(column.quantiles) == ["a", "b", "c"]
    for domain, quantiles in column.quantiles.items():
        expected = table[table.ward == domain].x.quantile([0.05, 0.25, 0.5, 0.75, 0.95])
        assert quantiles == pytest.approx(list(expected))
    for run in studied.held_out.runs:
        domain = run.config.test_domains[0]
        far = run.model.predict(run.model.form.read(table[table.ward == domain])).far
        assert found.far[domain] == pytest.approx(float(far.mean()))


def test_the_answer_has_the_expected_interval_and_the_commonest_class(studied):
    expected = studied.held_out.expected.score("accuracy")
    low, high = (100 * end for end in expected.interval)
    assert studied.answer.startswith(
        f"At a ward like these expect {expected.mean:.0%} accuracy ({low:.0f}–{high:.0f});"
    )
    assert "nowhere worse than always answering one class" in studied.answer
    assert studied.answer in studied.page.read_text()


def test_the_diagnosis_is_not_repeated(
    studied: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It is kept with a hash of its inputs, and comes back as it was."""
    asked: list[str] = []

    def diagnose(data: Any, **settings: Any) -> Any:
        asked.append(data.name)
        return studied.diagnosis

    monkeypatch.setattr(study_module, "diagnose", diagnose)
    settings = {"hparams": {"hidden": 4}, "steps": 2, "out": tmp_path, **COLUMNS}
    shiftproof.study(wards(), "erm", **settings)
    kept = tmp_path / "diagnosed.json"
    page = (tmp_path / "report.html").read_text()
    found = shiftproof.study(wards(), "erm", **settings).diagnosis
    assert len(asked) == 1
    assert found.measured == studied.diagnosis.measured
    assert found.advice == studied.diagnosis.advice
    assert found.to_text() == studied.diagnosis.to_text()
    assert (tmp_path / "report.html").read_text() == page
    kept.write_text(kept.read_text()[:-200])  # damaged: measured again, and kept again
    shiftproof.study(wards(), "erm", **settings)
    assert len(asked) == 2
    data = shiftproof.load(wards(), **COLUMNS)
    changed = wards()
    changed.loc[0, "x"] += 1.0
    other = shiftproof.load(changed, **COLUMNS)
    assert stored_diagnosis(kept, inputs_of(data, raw=False, seed=0)) is not None
    assert stored_diagnosis(kept, inputs_of(other, raw=False, seed=0)) is None
    assert stored_diagnosis(kept, inputs_of(data, raw=False, seed=1)) is None


@pytest.fixture
def undiagnosed(studied: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the diagnosis of the other study: it takes seconds, and is not what is tested."""
    monkeypatch.setattr(study_module, "diagnose", lambda *_, **__: studied.diagnosis)


@pytest.mark.usefixtures("undiagnosed")
def test_it_resumes_after_an_interruption(tmp_path: Path):
    class Impatient(Observer):
        runs = 0

        def begin(self, config: Any, step: int) -> None:
            self.runs += 1
            if self.runs == 2:
                signal.raise_signal(signal.SIGINT)

    settings = {"hparams": {"hidden": 4}, "steps": 3, "out": tmp_path, **COLUMNS}
    stopped = shiftproof.study(wards(), "erm", observer=Impatient(), **settings)
    assert (stopped.final, stopped.page) == (None, None)
    assert [run.status for run in stopped.runs] == ["finished", "stopped"]
    again = shiftproof.study(wards(), "erm", **settings)
    assert [run.status for run in again.runs] == ["finished"] * 4
    assert again.page is not None


def test_mistakes_cost_no_training(tmp_path: Path):
    with pytest.raises(
        DataError,
        match=r"a study holds out each domain in turn and needs at least 3 domains; .* has 2",
    ):
        shiftproof.study(wards(names="ab"), out=tmp_path / "two", **COLUMNS)
    settings = {"class_weight": "balanced", "out": tmp_path / "soon", **COLUMNS}
    with pytest.raises(InvalidValue, match="mixup does not support sample weights"):
        shiftproof.study(wards(), "mixup", **settings)
    assert not (tmp_path / "two").exists()
    assert not (tmp_path / "soon").exists()


@pytest.mark.usefixtures("undiagnosed")
def test_another_study_in_the_same_folder_is_refused_before_it_changes_anything(studied):
    folder = studied.folder
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(RunConflict, match=r"holds another study \(other data or columns") as told:
        shiftproof.study(wards(), "linear", out=folder, label="x", domain="ward")
    assert str(told.value).startswith(f"{folder} ")
    with pytest.raises(RunConflict, match=r"another study .*seed 0 → 1.*choose another `out`"):
        shiftproof.study(wards(), "linear", out=folder, seed=1, **COLUMNS)
    assert before == {path: path.read_bytes() for path in before}


def test_a_private_study_shows_no_rows(tmp_path: Path):
    found = shiftproof.study(wards(), "linear", private=True, out=tmp_path, **COLUMNS)
    shown = read_evidence(tmp_path / "study.json")
    assert (shown.errors, shown.shifted, shown.images) == ((), (), {})
    assert shown.far == dict.fromkeys("abc")
    assert not (tmp_path / "baselines.safetensors").exists()
    assert found.final.config.private
    assert found.answer in found.page.read_text()


def test_a_study_of_numbers_has_its_baselines_and_page(tmp_path: Path):
    """The mean of training, ridge and forest beside the model, each from its own computation."""
    rng = np.random.default_rng(0)
    ward = np.array(list("abc"))[np.arange(120) % 3]
    x = rng.normal(size=120)
    level = np.array([0.0, 20.0, -5.0])[np.arange(120) % 3]
    table = pd.DataFrame({"x": x, "ward": ward, "stay": 10 * x + level + rng.normal(size=120)})
    found = shiftproof.study(table, "linear", label="stay", domain="ward", out=tmp_path)
    expected = found.held_out.expected
    assert found.answer.startswith(
        f"At a ward like these expect an error of {expected.headline.mean:.3g} ("
    )
    assert " in stay; the mean alone gives " in found.answer
    page = found.page.read_text()
    assert found.answer in page
    for words in ("Predicted against true", "Errors by ward", "Training mean", "Worst ward"):
        assert words in page
    assert "Logistic" not in page
    for title in (">Ridge<", "Random forest"):
        assert title in page
    baseline = stored_baselines(tmp_path / "baselines.safetensors", (), ("stay",))["Ridge"]
    a = table[table.ward != "a"]
    slope, _ = np.polyfit(a.x, a.stay, 1)
    # scikit-learn's penalty of 1 on 80 standardised rows shrinks the slope by 1/81.
    shrunk = slope * 80 / 81
    predicted = shrunk * (table[ward == "a"].x - a.x.mean()) + a.stay.mean()
    error = np.abs(predicted - table[ward == "a"].stay).mean()
    assert baseline.score("mae").estimates["a"].value == pytest.approx(error, rel=1e-4)
    evidence = read_evidence(tmp_path / "study.json")
    assert [column.name for column in evidence.shifted] == ["stay", "x"]
    assert evidence.shifted[0].quantiles["b"][2] == pytest.approx(table[ward == "b"].stay.median())
