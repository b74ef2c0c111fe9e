"""Numbers predicted from images, features and arrays; and every kind of model in ONNX."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import shiftproof as package

# A network without pretrained weights, on images of a few pixels.
SMALL = ["--backbone", "resnet18", "--weights", "random", "--image-size", "32"]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: Any) -> Path:
    """Grey images whose brightness is the label, from three cameras."""
    folder: Path = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    rows = []
    for place in range(36):
        light = float(rng.uniform(20, 230))
        pixels = np.clip(light + 5 * rng.normal(size=(32, 32, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{place}.png")
        rows.append((f"{place}.png", "abc"[place % 3], round(light / 10, 3), round(-light, 2)))
    frame = pd.DataFrame(rows, columns=["file", "camera", "lux", "dark"])
    frame.to_csv(folder / "photos.csv", index=False)
    frame.drop(columns=["lux", "dark"])[:5].to_csv(folder / "new.csv", index=False)
    return folder


def test_a_manifest_may_have_numbers_as_labels(
    shiftproof: Any, pictures: Path, tmp_path: Path
) -> None:
    columns = ["--label", "lux", "--domain", "camera", "--image", "file"]
    asked = ["train", pictures / "photos.csv", *columns, *SMALL, "--freeze", "-a", "linear"]
    code, _, err = shiftproof(*asked, "--out", tmp_path / "run")
    assert code == 0, err
    assert "note: regression" in err
    model = tmp_path / "run"
    code, out, err = shiftproof("evaluate", model, pictures / "photos.csv", "--json")
    assert code == 0, err
    for own in json.loads(out)["domains"]:
        assert own["scores"]["r2"] > 0.8
    code, out, err = shiftproof("predict", model, pictures / "new.csv", "--interval", 0.5)
    assert code == 0, err
    found = pd.read_csv(io.StringIO(out))
    assert len(found) == 5
    assert {"predicted", "low", "high"} <= set(found)


def test_a_network_is_trained_on_images_with_numbers(
    shiftproof: Any, pictures: Path, tmp_path: Path
) -> None:
    """The default algorithm of images with numbers, from its first steps to a prediction."""
    columns = ["--label", "lux", "--domain", "camera", "--image", "file"]
    asked = ["train", pictures / "photos.csv", *columns, *SMALL, "--steps", "2"]
    code, _, err = shiftproof(*asked, "--hparam", "batch_size=4", "--out", tmp_path / "run")
    assert code == 0, err
    model = package.load_model(tmp_path / "run")
    assert (model.config.algorithm, model.targets) == ("erm", ("lux",))
    assert model.predict_numbers([pictures / "0.png", pictures / "1.png"]).values.shape == (2,)


def test_numbers_that_may_be_classes_stay_classes_of_images(pictures: Path, tmp_path: Path) -> None:
    """A table would ask; codes beside images are classes, as they always were."""
    frame = pd.read_csv(pictures / "photos.csv")
    many = pd.concat([frame] * 2, ignore_index=True)
    many["file"] = [str(pictures / name) for name in many.file]
    many["code"] = [place % 36 % 24 for place in range(len(many))]
    many.to_csv(tmp_path / "m.csv", index=False)
    asked = {"label": "code", "domain": "camera", "image": "file"}
    found = package.load(tmp_path / "m.csv", **asked)
    assert len(found.classes) == 24
    numbers = package.load(tmp_path / "m.csv", **asked, task="regression")
    assert numbers.targets == ("code",)
    assert sorted(set(numbers.domains[0].y.tolist()))[:2] == [0.0, 3.0]


def test_a_folder_of_images_has_classes(shiftproof: Any, pictures: Path, tmp_path: Path) -> None:
    (tmp_path / "a" / "1").mkdir(parents=True)
    code, _, err = shiftproof("train", tmp_path, "--task", "regression")
    assert code == 2
    assert "for images with numbers, give a table with a column of paths (--image)" in err


def test_an_estimator_takes_paths_with_numbers(pictures: Path) -> None:
    frame = pd.read_csv(pictures / "photos.csv")
    paths = [pictures / name for name in frame.file]
    made = package.ShiftproofRegressor(
        "erm", steps=2, backbone="resnet18", image_size=32, device="cpu",
        hparams={"weights": "random", "batch_size": 4},
    )  # fmt: skip
    made.fit(paths, frame.lux.to_numpy(), frame.camera)
    assert made.predict(paths[:3]).shape == (3,)


def test_embeddings_are_arrays(shiftproof: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 20)).astype(np.float32)
    y = (x[:, 0] * 3 + 1).astype(np.float64)
    sites = np.array(["a", "b", "c"])[np.arange(90) % 3]
    run = package.train((x, y, sites), "linear", out=tmp_path / "run")
    np.savez(tmp_path / "new.npz", x=x[:30], y=y[:30], domain=sites[:30])
    code, out, err = shiftproof("evaluate", run.folder, tmp_path / "new.npz", "--json")
    assert code == 0, err
    found = json.loads(out)["domains"]
    assert [(own["domain"], own["target"]) for own in found][:2] == [("a", "y"), ("b", "y")]
    assert min(own["scores"]["r2"] for own in found) > 0.99
    np.save(tmp_path / "new.npy", x[:4])
    code, out, err = shiftproof("predict", run.folder, tmp_path / "new.npy")
    assert code == 0, err
    assert pd.read_csv(io.StringIO(out)).predicted.to_numpy() == pytest.approx(y[:4], abs=0.1)
    np.savez(tmp_path / "all.npz", x=x, y=y, domain=sites)
    asked = ["train", tmp_path / "all.npz", "-a", "linear", "--out", tmp_path / "file"]
    code, _, err = shiftproof(*asked)
    assert code == 0, err
    again = package.load_model(tmp_path / "file")
    assert again.targets == ("y",)
    assert again.predict_numbers(x[:4]).values == pytest.approx(y[:4], abs=0.1)


def homes(n: int = 150) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    frame["kind"] = rng.choice(["flat", "house"], n)
    frame["city"] = np.array(["x", "y", "z"])[np.arange(n) % 3]
    frame["price"] = 1e4 + 1e3 * frame.a + 50 * (frame.kind == "house") + rng.normal(size=n)
    frame["size"] = 5 - frame.c
    frame.loc[3, "a"] = np.nan
    return frame


@pytest.mark.parametrize("algorithm", ["linear", "boosting", "forest", "erm"])
def test_onnx_computes_what_the_model_does(tmp_path: Path, algorithm: str) -> None:
    pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    from _internals import to_onnx

    frame = homes()
    quick: dict[str, Any] = {
        "boosting": {"trees": 10},
        "forest": {"trees": 5},
        "erm": {"hidden": 8},
    }
    run = package.train(
        frame, algorithm, label="price", domain="city", drop=["size"], steps=5,
        hparams=quick.get(algorithm), out=tmp_path / "run",
    )  # fmt: skip
    model = run.model
    cells = model.form.columns.columns.encode(frame, "homes")
    session = onnxruntime.InferenceSession(to_onnx(model))
    (given,), (found,) = session.get_inputs(), session.run(None, {"inputs": cells})
    assert given.name == "inputs"
    expected = model.predict_numbers(frame).values
    assert found.shape == expected.shape
    assert found == pytest.approx(expected, rel=1e-4)
