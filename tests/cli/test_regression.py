"""Numbers from the command line: train, resume, predict, evaluate, export, report."""

from __future__ import annotations

import json

import numpy as np
import onnxruntime
import pandas as pd
import pytest

import shiftproof as package

COLUMNS = ["--label", "price", "--domain", "city"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng = np.random.default_rng(0)
    place = tmp_path_factory.mktemp("numbers")
    n = 240
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    frame["kind"] = rng.choice(["flat", "house"], n)
    frame["city"] = np.array(["x", "y", "z", "new"])[np.arange(n) % 4]
    house = 50 * (frame.kind == "house")
    frame["price"] = 1000 + 100 * (frame.a + frame.b.abs()) + house + 10 * rng.normal(size=n)
    frame[frame.city != "new"].to_csv(place / "homes.csv", index=False)
    frame[frame.city == "new"].to_csv(place / "new.csv", index=False)
    return place


@pytest.mark.parametrize("algorithm", ["linear", "boosting", "forest", "best", "erm"])
def test_each_domain_held_out_as_json_and_resumed(shiftproof, folder, tmp_path, algorithm):
    quick = {
        "forest": ["--hparam", "trees=10"],
        "best": ["--hparam", "budget=2"],
        "erm": ["--steps", "60", "--hparam", "hidden=16", "--hparam", "lr=0.02"],
    }
    asked = ["train", folder / "homes.csv", *COLUMNS, "-a", algorithm, *quick.get(algorithm, [])]
    asked += ["--test-domain", "each", "--out", tmp_path / "runs", "--json"]
    code, out, err = shiftproof(*asked)
    assert code == 0, err
    found = json.loads(out)
    assert [run["test_domains"] for run in found["runs"]] == [["x"], ["y"], ["z"]]
    assert found["mean"]["r2"] > 0.4
    assert found["worst"]["mae"] >= found["mean"]["mae"] > 0
    assert err.count("note: regression: the label 'price' has 180 distinct numbers") == 1
    assert "set --task classification" in err
    # The same command again returns the result: nothing is trained anew.
    code, again, _ = shiftproof(*asked)
    assert code == 0
    assert json.loads(again)["mean"] == found["mean"]


def test_from_a_model_to_predictions_errors_and_files(shiftproof, folder, tmp_path):
    run = tmp_path / "run"
    asked = ["train", folder / "homes.csv", *COLUMNS, "-a", "linear", "--out", run]
    code, _, err = shiftproof(*asked)
    assert code == 0, err
    code, out, err = shiftproof("predict", run, folder / "new.csv")
    assert code == 0
    frame = pd.read_csv(pd.io.common.StringIO(out))
    assert list(frame.columns) == ["row", "domain", "predicted", "typicality", "far"]
    assert "60 predictions (" in err
    truth = pd.read_csv(folder / "new.csv").price
    mae = float((frame.predicted - truth).abs().mean())
    code, out, _ = shiftproof("evaluate", run, folder / "new.csv", "--json")
    (domain,) = json.loads(out)["domains"]
    assert domain["domain"] == "new"
    assert domain["scores"]["mae"] == pytest.approx(mae, rel=1e-5)
    code, out, _ = shiftproof("evaluate", run, folder / "new.csv")
    assert code == 0
    assert "RMSE" in out
    code, _, err = shiftproof("export", run, "--to", "onnx", "--out", tmp_path / "m.onnx")
    assert code == 0, err
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    stored = session.get_modelmeta().custom_metadata_map
    described = json.loads(stored["shiftproof.json"])
    assert described["targets"] == ["price"]
    assert described["output"] == {"name": "predicted", "shape": ["n"], "dtype": "float32"}
    model = package.load_model(run)
    cells = model.form.read(pd.read_csv(folder / "new.csv").drop(columns=["price", "city"]))
    (predicted,) = session.run(["predicted"], {"inputs": np.array(cells, dtype=np.float64)})
    assert predicted == pytest.approx(frame.predicted.to_numpy(), rel=1e-5)
    code, _, err = shiftproof("export", run, "--to", "torchscript")
    assert (code, err.count("\n")) == (2, 1)
    assert "export to TorchScript was removed; export to onnx instead" in err


def test_every_member_is_exported_as_it_predicts(folder, tmp_path):
    """The graph of `best` must compute what the ensemble does, whatever its members."""
    import onnxruntime
    from _internals import to_onnx

    run = package.train(
        folder / "homes.csv",
        "best",
        label="price",
        domain="city",
        hparams={"budget": 20.0},
        out=tmp_path / "run",
    )
    model = run.model
    assert sum(member["weight"] for member in run.metrics["members"]) == pytest.approx(1)
    cells = model.form.read(pd.read_csv(folder / "new.csv").drop(columns=["price", "city"]))
    expected = model.predict_numbers(cells).values
    session = onnxruntime.InferenceSession(to_onnx(model), providers=["CPUExecutionProvider"])
    (found,) = session.run(["predicted"], {"inputs": np.array(cells, dtype=float)})
    assert found == pytest.approx(expected, rel=1e-5)


def test_a_report_of_numbers_says_what_it_shows(shiftproof, folder, tmp_path):
    runs = tmp_path / "runs"
    each = ["--test-domain", "each", "--out", runs]
    code, out, err = shiftproof("train", folder / "homes.csv", *COLUMNS, "-a", "linear", *each)
    assert code == 0, err
    assert "training mean" in out
    code, out, err = shiftproof("report", runs)
    assert code == 0, err
    assert "R² (%) on the test domain" in out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--task", "classification"], "too many for a class label"),
        (["--task", "sorting"], "unknown task 'sorting'"),
        (["--loss", "squard"], "did you mean 'squared'"),
        (["--loss", "quantile:2"], "--loss quantile: its parameter must lie in (0, 1), not '2'"),
        (["--loss", "huber"], "--loss huber is for networks"),
        (
            ["-a", "cdann"],
            "cdann only predicts classes, because its discriminator is given the class",
        ),
        (["-a", "idm-auto"], "idm-auto only predicts classes, because its test of concept shift"),
        (["--metric", "auroc"], "--metric 'auroc' is unknown for regression; known: r2, mae, rmse"),
    ],
)
def test_what_cannot_be_is_one_line(shiftproof, folder, tmp_path, options, words):
    asked = ["train", folder / "homes.csv", *COLUMNS, "--out", tmp_path / "run"]
    algorithm = [] if "-a" in options else ["-a", "linear"]
    code, _, err = shiftproof(*asked, *algorithm, *options)
    assert code == 2
    assert words in err


def test_classes_have_no_loss_of_numbers(shiftproof, folder, tmp_path):
    code, _, err = shiftproof(
        "train", folder / "homes.csv", "--label", "kind", "--domain", "city", "-a", "linear",
        "--loss", "squared", "--out", tmp_path / "run",
    )  # fmt: skip
    assert code == 2
    assert "--loss squared is for numbers" in err
