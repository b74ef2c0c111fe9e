"""`standardize`: every site by its own rows, from training to predictions, reports and files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from _internals import (
    DataError,
    InvalidValue,
    Predictor,
    as_ready,
    standardized_features,
    to_onnx,
    training_evaluation_sets,
)

import shiftproof
from shiftproof import TrainedModel

TABLE = {"label": "ill", "domain": "site"}
NEW = "site5"
# Units of the new site for every column: x → a x + b.
UNITS = {"a": (4.0, 20.0), "b": (0.25, -3.0), "c": (1000.0, 0.5)}


def sites(gains: float = 0.0, rows: int = 80, seed: int = 0, count: int = 6) -> pd.DataFrame:
    """Sites that differ in the gain and offset of each column, by `gains`, and in nothing else."""
    rng = np.random.default_rng(seed)
    parts = []
    for site in range(count):
        y = rng.permutation(np.arange(rows) % 2)
        x = rng.normal(size=(rows, 3)) + 1.0 * y[:, None] * np.array([1.0, -1.0, 0.5])
        x = x * np.exp(gains * rng.normal(size=3)) + 2 * gains * rng.normal(size=3)
        part = pd.DataFrame(x, columns=["a", "b", "c"])
        part["kind"] = np.where(rng.random(rows) < 0.3, "new", "old")
        part["ill"], part["site"] = np.array(["no", "yes"])[y], f"site{site}"
        parts.append(part)
    frame = pd.concat(parts, ignore_index=True)
    frame.loc[rng.random(len(frame)) < 0.1, "c"] = np.nan
    return frame


def trained(folder: Path, frame: pd.DataFrame, algorithm: str = "linear", **more: Any) -> Any:
    given = {**TABLE, "test_domains": NEW, "out": folder / algorithm, "device": "cpu", **more}
    return shiftproof.train(frame, algorithm, **given)


def in_other_units(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(**{name: a * frame[name] + b for name, (a, b) in UNITS.items()})


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A model of each kind, trained with and without, on the same sites."""
    folder = tmp_path_factory.mktemp("runs")
    steps = {"steps": 40, "hparams": {"lr": 0.01}}
    return {
        "frame": sites(0.5),
        "none": trained(folder / "none", sites(0.5)),
        "domain": trained(folder / "domain", sites(0.5), standardize="domain"),
        "network": trained(folder / "domain", sites(0.5), "erm", standardize="domain", **steps),
    }


def probabilities(run: Any, rows: pd.DataFrame, **more: Any) -> np.ndarray:
    model = run.model
    return model.predict(model.form.read(rows), **more).probabilities


@pytest.mark.parametrize("name", ["domain", "network"])
def test_the_model_predicts_the_new_site_as_the_run_scored_it(runs, name):
    run, frame = runs[name], runs["frame"]
    rows = frame[frame["site"] == NEW]
    np.testing.assert_allclose(probabilities(run, rows), run.outputs[NEW].probabilities, atol=2e-6)


@pytest.mark.parametrize("name", ["domain", "network"])
def test_units_of_the_new_site_do_not_matter(runs, name):
    rows = runs["frame"].query("site == @NEW")
    before, after = (probabilities(runs[name], own) for own in (rows, in_other_units(rows)))
    np.testing.assert_allclose(after, before, atol=1e-5)


def test_units_of_the_new_site_do_matter_without(runs):
    rows = runs["frame"].query("site == @NEW")
    before, after = (probabilities(runs["none"], own) for own in (rows, in_other_units(rows)))
    assert np.abs(after - before).max() > 0.2


def test_sites_are_standardized_each_by_itself(runs):
    frame = runs["frame"].query("site in ['site4', 'site5']")
    shuffled = frame.sample(frac=1, random_state=0)
    both = probabilities(runs["domain"], shuffled, sites=shuffled["site"].tolist())
    for site, own in shuffled.groupby("site"):
        np.testing.assert_allclose(
            both[(shuffled["site"] == site).to_numpy()],
            probabilities(runs["domain"], own),
            atol=1e-6,
        )
    together = probabilities(runs["domain"], shuffled)
    assert np.abs(together - both).max() > 0.01


def test_batches_do_not_change_the_answer(runs, monkeypatch):
    rows = runs["frame"].query("site == @NEW")
    before = probabilities(runs["domain"], rows)
    monkeypatch.setattr(training_evaluation_sets, "MOST_SAMPLES", 7)
    np.testing.assert_allclose(probabilities(runs["domain"], rows), before, atol=1e-6)


def test_too_few_rows_are_refused(runs):
    with pytest.raises(
        DataError, match=r"new site: 9 rows.*at least 10; pass all rows of the site"
    ):
        probabilities(runs["domain"], runs["frame"][:9])


def test_the_model_file_says_it_and_holds_no_statistics_of_sites(runs):
    model = runs["domain"].model
    again = TrainedModel.from_bytes(model.to_bytes())
    assert again.config.standardize == again.form.standardize == "domain"
    assert again.standardized == "standardized by domain"
    # Numbers in the form are those of standardised rows: mean 0, and no scale of a site.
    scaled = [part for part in model.form.columns.parts if hasattr(part, "std")]
    assert len(scaled) == 3
    assert all(abs(part.mean) < 1e-9 and abs(part.std - 1) < 1e-9 for part in scaled)
    other = replace(model, config=replace(model.config, standardize="none"))
    with pytest.raises(shiftproof.ShiftproofError, match="not a valid model file"):
        TrainedModel.from_bytes(other.to_bytes())


def test_without_it_files_and_ids_are_as_before(runs):
    described = runs["none"].model.described()
    assert "standardize" not in described["config"]
    assert "standardize" not in described["form"]
    assert "standardize" not in json.loads((runs["none"].folder / "config.json").read_text())
    assert "adaptation" not in runs["none"].to_dict()


def test_resuming_never_mixes(runs):
    with pytest.raises(shiftproof.ShiftproofError):
        trained(runs["none"].folder.parent, runs["frame"], standardize="domain")


def test_results_are_called_adaptation_and_have_tables_of_their_own(runs, tmp_path):
    from _internals import accuracy_table

    run = runs["domain"]
    assert run.to_dict()["adaptation"] == "standardized by domain"
    table = accuracy_table(run.config, run.metrics)
    assert "linear, standardized by domain on" in str(table.title)
    assert "adaptation: the rows of the test domain are used" in str(table.caption)
    found = shiftproof.report(run.folder, runs["none"].folder)
    measured = found.to_frame().dropna(subset="mean")
    kinds = set(zip(measured["dataset"], measured["algorithm"], strict=True))
    data = runs["none"].config.dataset
    assert kinds == {(data, "linear"), (f"{data} (adaptation)", "linear, standardized by domain")}
    page = found.page()
    assert "linear, standardized by domain" in page
    for table in found.tables:  # no table has rows or columns of both kinds, or one without numbers
        said = str(table.title) + "".join(column.title for column in table.columns)
        adapted = "(adaptation)" in said
        rows = [row.label for row in table.rows]
        assert rows == ["linear, standardized by domain" if adapted else "linear"]
        assert any(cell.value is not None for row in table.rows for cell in row.cells)


def test_a_run_with_it_can_be_diagnosed(tmp_path):
    frame, few = sites(count=4).dropna(), {"test_domains": "site3", "holdout": 0.5}
    run = trained(tmp_path, frame, "erm", standardize="domain", steps=5, **few)
    found = shiftproof.diagnose(frame, run=run.folder, seed=0, device="cpu", **TABLE)
    assert found.to_dict()["model"]


def test_exports_to_a_graph_are_refused(runs):
    with pytest.raises(InvalidValue, match="needs all rows of a site"):
        to_onnx(runs["domain"].model)


def test_a_domain_too_small_to_be_standardized_is_refused(tmp_path):
    small = sites().groupby("site").head(5)
    with pytest.raises(DataError, match="site0': 5 rows"):
        trained(tmp_path, small, standardize="domain")


def test_an_expectation_says_that_it_is_one_of_adaptation(tmp_path):
    frame = sites(0.5, count=4)
    each = shiftproof.train_each(
        frame, "linear", out=tmp_path, standardize="domain", device="cpu", **TABLE
    )
    assert each.to_dict()["adaptation"] == "standardized by domain"
    for found in (shiftproof.expect(each), shiftproof.expect(tmp_path)):
        assert found.to_dict()["adaptation"] == "standardized by domain"
    from _internals import sentences

    assert any("This is adaptation (standardized by domain)" in said for said in sentences(found))


def test_compare_sites_and_recalibrate_take_the_same_view(runs):
    rows = runs["frame"].query("site == @NEW").drop(columns="site")
    model = runs["domain"].model
    here, there = (shiftproof.compare_sites(model, own) for own in (rows, in_other_units(rows)))
    assert here.distances == pytest.approx(there.distances, abs=1e-4)
    assert all(abs(value) < 0.5 for value in here.shifts.values())
    made = shiftproof.recalibrate(model, rows)
    after = made.model.predict(made.model.form.read(in_other_units(rows))).probabilities
    before = made.model.predict(made.model.form.read(rows)).probabilities
    torch.testing.assert_close(after, before, atol=1e-4, rtol=0)


def test_the_estimator_takes_the_same(runs):
    frame = runs["frame"]
    train, new = frame.query("site != @NEW"), frame.query("site == @NEW")
    features = ["a", "b", "c", "kind"]
    made = shiftproof.ShiftproofClassifier("linear", standardize="domain", random_state=0)
    made.fit(train[features], train["ill"], sample_domain=train["site"])
    own = made.predict_proba(new[features])
    moved = made.predict_proba(in_other_units(new)[features])
    np.testing.assert_allclose(moved, own, atol=1e-5)
    several = made.predict_proba(frame[features], sample_domain=frame["site"])
    np.testing.assert_allclose(several[(frame["site"] == NEW).to_numpy()], own, atol=1e-6)


def test_whitening_of_embeddings(tmp_path):
    frame = sites(0.0, rows=60).drop(columns=["kind", "c"])
    run = trained(tmp_path, frame, standardize="whiten")
    rows = frame.query("site == @NEW")
    np.testing.assert_allclose(probabilities(run, rows), run.outputs[NEW].probabilities, atol=2e-6)
    assert run.to_dict()["adaptation"] == "whitened by domain"
    with pytest.raises(DataError, match="needs numeric columns without missing values"):
        trained(tmp_path / "table", sites(), standardize="whiten")


def test_features_of_a_frozen_network_are_standardized(tmp_path):
    """The model computes features of images, standardises them by site, and predicts as scored."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for place in ("day", "night", "dusk"):
        for name in ("cat", "dog"):
            (tmp_path / "photos" / place / name).mkdir(parents=True)
            for number in range(6):
                pixels = rng.integers(40, 200, (16, 16, 3)) // (1 + (place == "night"))
                pixels[..., 0] += 50 * (name == "dog")
                path = tmp_path / "photos" / place / name / f"{number}.png"
                Image.fromarray(pixels.astype(np.uint8)).save(path)
    given: dict[str, Any] = {
        "test_domains": "dusk", "freeze": True, "backbone": "resnet18", "weights": "random",
        "image_size": 32, "device": "cpu",
    }  # fmt: skip
    paths = sorted((tmp_path / "photos" / "dusk").glob("*/*.png"))
    for how in ("domain", "whiten"):
        folder = tmp_path / how
        run = shiftproof.train(tmp_path / "photos", "linear", standardize=how, out=folder, **given)
        model = TrainedModel.load(folder, "cpu")
        found = model.predict(model.form.read(paths))
        by_class = np.sort(run.outputs["dusk"].probabilities, axis=0)
        np.testing.assert_allclose(np.sort(found.probabilities, axis=0), by_class, atol=1e-4)
        assert np.isfinite(found.typicality).all()
    with pytest.raises(InvalidValue, match="images; use `freeze`"):
        shiftproof.train(tmp_path / "photos", "erm", standardize="domain", out=tmp_path / "no")


def test_the_part_of_a_network_after_its_features_keeps_the_temperature():
    network = Predictor(torch.nn.Module(), torch.nn.Identity(), temperature=2.0)
    x = np.arange(30.0, dtype=np.float32).reshape(10, 3) ** 2
    rest, rows = standardized_features(network, "domain", as_ready(x), None, "cpu")
    assert rest.temperature == 2
    np.testing.assert_allclose(rows, (x - x.mean(axis=0)) / x.std(axis=0), rtol=1e-5, atol=1e-6)
