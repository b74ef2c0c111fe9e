"""A trained model: it predicts what the run scored, wherever its file goes."""

from __future__ import annotations

import json
import pickle
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from _internals import (
    MODEL,
    CheckpointError,
    Columns,
    DataError,
    FittedColumns,
    ImageView,
    Observer,
    RunConfig,
    TableForm,
    configure,
    freeze,
    from_arrays,
    per_sample_risk,
    table_dataset,
    train,
    trained_model,
)
from image_data import load_images
from PIL import Image

from shiftproof import DomainDataset, TrainedModel


def patients(seed: int = 0, n: int = 90) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    ill = rng.integers(2, size=n)
    return pd.DataFrame(
        {
            "hospital": np.array(["north", "south", "west"])[np.arange(n) % 3],
            "age": np.where(rng.random(n) < 0.2, np.nan, 50 + 10 * ill + rng.normal(0, 5, n)),
            "pain": np.array(["none", "some", "much"])[
                np.minimum(ill + rng.integers(2, size=n), 2)
            ],
            "ill": np.array(["no", "yes"])[ill],
        }
    )


def run(
    dataset: DomainDataset, folder: Path, algorithm: str = "erm", **settings: Any
) -> tuple[RunConfig, TrainedModel]:
    settings = {"steps": 20, "test_domains": [dataset.domain_names[0]], "device": "cpu"} | settings
    config = configure(dataset, algorithm, **settings)
    train(config, dataset, folder)
    return config, trained_model(config, replace(dataset, columns={"label": "ill"}), folder)


def last_record(folder: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((folder / "records.jsonl").read_text().splitlines()[-1])
    return record


@pytest.mark.parametrize(
    ("algorithm", "average"),
    [("erm", "none"), ("idm", "none"), ("sagnet", "ema"), ("arm", "none"), ("mtl", "none")],
)
def test_it_predicts_what_the_run_scored(tmp_path: Path, algorithm: str, average: str) -> None:
    frame = patients()
    dataset = table_dataset(frame, "p", "ill", "hospital")
    _, model = run(dataset, tmp_path, algorithm, average=average, holdout=0.0, evaluate=["test-in"])
    scored = last_record(tmp_path)
    held_out = frame[frame.hospital == "north"]
    predictions = model.predict(model.form.read(held_out))
    labels = (held_out.ill == "yes").to_numpy().astype(int)
    accuracy = (predictions.predicted == labels).mean()
    logs = torch.from_numpy(predictions.probabilities).double().log()
    risk = per_sample_risk(logs, torch.from_numpy(labels)).mean()
    assert accuracy == pytest.approx(scored["accuracy"]["north/in"])
    assert risk.item() == pytest.approx(scored["risk"]["north/in"], rel=1e-4)
    assert model.classes == ("no", "yes")
    assert model.domains == ("south", "west")


def test_its_file_holds_all_and_only_what_predictions_need(tmp_path: Path) -> None:
    dataset = table_dataset(patients(), "p", "ill", "hospital")
    config, model = run(dataset, tmp_path / "run", "idm", hparams={"gradient_warmup": 2})
    new = model.form.read(patients(1))
    expected = model.predict(new)
    file = model.save(tmp_path / "elsewhere")
    for copy in (
        TrainedModel.load(tmp_path / "elsewhere"),
        TrainedModel.load(file),
        pickle.loads(pickle.dumps(model)),
    ):
        found = copy.predict(copy.form.read(patients(1)))
        for name in ("probabilities", "typicality", "far"):
            assert np.array_equal(getattr(found, name), getattr(expected, name))
        assert copy.described() == model.described()
        assert copy.columns == {"label": "ill"}
    assert model.config == config
    # IDM's remembered gradients are many times the weights, and stay behind.
    checkpoint = (tmp_path / "run" / "checkpoint.safetensors").stat().st_size
    assert file.stat().st_size < checkpoint / 3


def test_unseen_categories_missing_cells_and_other_columns(tmp_path: Path) -> None:
    _, model = run(table_dataset(patients(), "p", "ill", "hospital"), tmp_path)
    new = pd.DataFrame({"extra": [1, 2], "pain": ["agony", None], "age": [np.nan, 61]})
    assert np.isfinite(model.predict(model.form.read(new)).probabilities).all()
    with pytest.raises(DataError, match="is missing columns that the model needs: 'age'"):
        model.form.read(new.drop(columns="age"))
    with pytest.raises(DataError, match="infinite"):
        model.form.read(new.assign(age=np.inf))


def test_arrays_and_one_logit(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 1, 28, 28)).astype(np.float32) / 9 + 0.5, np.arange(60) % 2
    dataset = from_arrays(x, y, np.arange(60) % 3)
    _, model = run(dataset, tmp_path, hparams={"single_logit": True}, steps=2)
    found = model.predict(model.form.read(x))
    assert found.probabilities.shape == (60, 2)
    np.testing.assert_allclose(found.probabilities.sum(1), np.ones(60), rtol=1e-6)
    with pytest.raises(
        DataError, match=r"shape \(60, 28, 28\), but the model takes \[n, 1, 28, 28"
    ):
        model.form.read(x[:, 0])
    with pytest.raises(DataError, match="missing or infinite"):
        model.form.read(np.where(x == x[0, 0, 0, 0], np.nan, x))
    with pytest.raises(DataError, match="nothing to predict"):
        model.predict(torch.zeros(0, 1, 28, 28))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for domain in ("day", "night", "fog"):
        for label, level in (("cat", 60), ("dog", 180)):
            folder = tmp_path / "photos" / domain / label
            folder.mkdir(parents=True)
            for i in range(4):
                pixels = rng.integers(level, level + 60, (40, 50, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{i}.png")
    return tmp_path / "photos"


@pytest.mark.parametrize("frozen", [False, True])
def test_photographs_and_frozen_features(photos: Path, tmp_path: Path, frozen: bool) -> None:
    dataset = load_images(photos, ImageView(32))
    settings: dict[str, Any] = {"hparams": {"weights": "random"}, "backbone": "resnet18"}
    if frozen:
        dataset = freeze(dataset, "resnet18", "random", device="cpu")
        settings = {}
    settings |= {"steps": 2, "holdout": 0.0, "evaluate": ["test-in"]}
    _, model = run(dataset, tmp_path / "run", **settings)
    model.save(tmp_path / "kept")
    model = TrainedModel.load(tmp_path / "kept", "cpu")
    paths = sorted((photos / "day").glob("*/*.png"))
    labels = np.array([int(path.parent.name == "dog") for path in paths])
    found = model.predict(model.form.read(paths))
    accuracy = (found.predicted == labels).mean()
    logs = torch.from_numpy(found.probabilities).log()
    risk = per_sample_risk(logs, torch.from_numpy(labels)).mean().item()
    scored = last_record(tmp_path / "run")
    assert accuracy == pytest.approx(scored["accuracy"]["day/in"])
    assert risk == pytest.approx(scored["risk"]["day/in"], rel=1e-4)


def test_the_preparation_of_a_table_is_fitted_once_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the run starts; resuming it and making its model read the fitted one."""
    fits: list[int] = []
    fit = Columns.fit

    def counting(self: Columns, x: torch.Tensor) -> FittedColumns:
        fits.append(len(x))
        return fit(self, x)

    monkeypatch.setattr(Columns, "fit", counting)
    frame = patients().assign(ward="a")  # one value only: a note of the fitted preparation
    dataset = table_dataset(frame, "p", "ill", "hospital")
    config = configure(dataset, "erm", steps=20, test_domains=["north"], device="cpu")

    class Stop(Observer):
        notes: ClassVar[list[str]] = []

        def step(self, step: int, measured: dict[str, Any]) -> None:
            if step == 10:
                signal.raise_signal(signal.SIGINT)

        def note(self, text: str) -> None:
            self.notes.append(text)

    assert train(config, dataset, tmp_path, Stop()).status == "stopped"
    noted = list(Stop.notes)
    assert any("only one value among the training samples: 'ward'" in note for note in noted)
    assert train(config, dataset, tmp_path, Stop()).status == "finished"
    assert Stop.notes == noted * 2
    model = trained_model(config, dataset, tmp_path)
    assert fits == [48]
    assert isinstance(model.form, TableForm)
    trained_on = {name: split.in_ for name, split in config.training_splits(dataset).items()}
    fitted = dataset.fit_preparation(trained_on)
    assert isinstance(fitted, FittedColumns)
    assert model.form.columns == fitted

    whole = tmp_path / "whole"
    train(config, dataset, whole)
    expected = trained_model(config, dataset, whole).to_bytes()
    assert model.to_bytes() == expected


def test_what_is_no_model_is_said_in_one_line(tmp_path: Path) -> None:
    dataset = table_dataset(patients(), "p", "ill", "hospital")
    config, model = run(dataset, tmp_path / "runs" / "a", steps=1)
    file = model.save(tmp_path / "runs" / "a")
    with pytest.raises(DataError, match="holds 1 run; choose one of them: a"):
        TrainedModel.load(tmp_path / "runs")
    with pytest.raises(DataError, match="no such run or model"):
        TrainedModel.load(tmp_path / "nowhere")
    with pytest.raises(DataError, match="run the same training again"):
        TrainedModel.load(tmp_path)
    data = file.read_bytes()
    (tmp_path / MODEL).write_bytes(data[: len(data) // 2])
    with pytest.raises(CheckpointError, match="not a valid model file"):
        TrainedModel.load(tmp_path)
    (tmp_path / MODEL).write_bytes(data.replace(b'\\"format\\": 2', b'\\"format\\": 9'))
    with pytest.raises(CheckpointError, match="does not match its hash"):
        TrainedModel.load(tmp_path)
    other = table_dataset(patients(1), "p", "ill", "hospital")
    with pytest.raises(DataError, match="other data"):
        trained_model(config, other, tmp_path / "runs" / "a")
