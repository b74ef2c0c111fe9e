"""Several numbers at once from the command line, from training to the page."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from _internals import read_frame
from sklearn.linear_model import Ridge

import shiftproof as package

COLUMNS = ["--label", "price,size", "--domain", "city"]


def homes(n: int = 240) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    frame["city"] = np.array(["x", "y", "z", "new"])[np.arange(n) % 4]
    frame["price"] = 1e5 + 1e4 * (frame.a + frame.b) + 1e3 * rng.normal(size=n)
    frame["size"] = 5 - frame.c + 0.1 * rng.normal(size=n)
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    place: Path = tmp_path_factory.mktemp("targets")
    frame = homes()
    frame[frame.city != "new"].to_csv(place / "homes.csv", index=False)
    frame[frame.city == "new"].to_csv(place / "new.csv", index=False)
    package.train_each(
        place / "homes.csv", "linear", label="price,size", domain="city", out=place / "each"
    )
    package.train(
        place / "homes.csv", "linear", label=["price", "size"], domain="city", out=place / "model"
    )
    return place


@pytest.mark.parametrize("algorithm", ["linear", "best", "idm"])
def test_each_domain_held_out_and_resumed(
    shiftproof: Any, folder: Path, tmp_path: Path, algorithm: str
) -> None:
    network = ["--steps", "60", "--hparam", "hidden=16", "--hparam", "lr=0.02"]
    quick = {
        "best": ["--hparam", "budget=2"],
        "idm": [*network, "--hparam", "gradient_warmup=20", "--hparam", "gradient_weight=1"],
    }
    asked = ["train", folder / "homes.csv", *COLUMNS, "-a", algorithm, *quick.get(algorithm, [])]
    asked += ["--test-domain", "each", "--out", tmp_path / "runs", "--json"]
    code, out, err = shiftproof(*asked)
    assert code == 0, err
    assert "note: regression of several labels: 'price', 'size'" in err
    found = json.loads(out)
    assert found["mean"]["r2"] > 0.6
    # In the units of each: an error of a price is thousands, of a size less than one.
    assert found["expected"]["price"]["mae"]["mean"] > 100
    assert found["expected"]["size"]["mae"]["mean"] < 2
    code, again, _ = shiftproof(*asked)
    assert json.loads(again)["mean"] == found["mean"]


def test_the_table_has_a_row_for_each_target(shiftproof: Any, folder: Path, tmp_path: Path) -> None:
    asked = ["train", folder / "homes.csv", *COLUMNS, "-a", "linear", "--test-domain", "each"]
    code, out, err = shiftproof(*asked, "--out", tmp_path / "runs")
    assert code == 0, err
    rows = [line.split("│")[1:3] for line in out.splitlines() if line.count("│") > 7]
    named = [[cell.strip() for cell in row] for row in rows]
    assert [row for row in named if row[0] in ("x", "mean")] == [
        ["x", "price"], ["x", "size"], ["mean", "price"], ["mean", "size"],
    ]  # fmt: skip
    assert out.count("Expect MAE") == 2


def test_predictions_are_scikit_learns_ridge(shiftproof: Any, folder: Path, tmp_path: Path) -> None:
    code, _, err = shiftproof(
        "train", folder / "homes.csv", *COLUMNS, "-a", "linear", "--hparam", "penalty=0.01",
        "--out", tmp_path / "run",
    )  # fmt: skip
    assert code == 0, err
    code, out, err = shiftproof("predict", tmp_path / "run", folder / "new.csv")
    assert code == 0, err
    assert "60 predictions (price" in err
    found = pd.read_csv(io.StringIO(out))
    known, new = (pd.read_csv(folder / name) for name in ("homes.csv", "new.csv"))
    x, y = known[["a", "b", "c"]], known[["price", "size"]]
    mean, std = x.mean(), x.std(ddof=0)
    other = Ridge(0.01 * len(x)).fit((x - mean) / std, y)
    expected = other.predict((new[["a", "b", "c"]] - mean) / std)
    assert found.predicted_price.to_numpy() == pytest.approx(expected[:, 0], rel=1e-5)
    assert found.predicted_size.to_numpy() == pytest.approx(expected[:, 1], rel=1e-4)


@pytest.mark.parametrize("source", ["model", "expected"])
def test_every_target_has_its_intervals(shiftproof: Any, folder: Path, source: str) -> None:
    given = ["--expected", folder / "each"] if source == "expected" else []
    code, out, err = shiftproof(
        "predict", folder / "model", folder / "new.csv", "--interval", 0.7, *given
    )
    assert code == 0, err
    found, truth = pd.read_csv(io.StringIO(out)), pd.read_csv(folder / "new.csv")
    widths = []
    for name in ("price", "size"):
        low, high = found[f"low_{name}"], found[f"high_{name}"]
        assert ((truth[name] >= low) & (truth[name] <= high)).mean() > 0.5
        widths.append((high - low).iloc[0])
    assert widths[0] / widths[1] == pytest.approx(1e3 / 0.1, rel=0.3)  # the noise of each


def test_evaluation_has_a_card_for_each_target(shiftproof: Any, folder: Path) -> None:
    asked = ["evaluate", folder / "model", folder / "new.csv", "--expected", folder / "each"]
    code, out, err = shiftproof(*asked, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["targets"] == ["price", "size"]
    assert [own["target"] for own in found["domains"]] == ["price", "size"]
    model = package.load_model(folder / "model")
    new = pd.read_csv(folder / "new.csv")
    predicted = model.predict_numbers(new).values.numpy()
    for place, own in enumerate(found["domains"]):
        mae = np.abs(predicted[:, place] - new[own["target"]]).mean()
        assert own["scores"]["mae"] == pytest.approx(mae)
    assert [own["domain"] for own in found["expected"]] == ["new, price", "new, size"]
    code, out, _ = shiftproof(*asked)
    assert "new, price: MAE" in out
    assert "calibration slope" in out


def test_what_to_expect_is_of_one_target_or_of_each(shiftproof: Any, folder: Path) -> None:
    code, out, err = shiftproof("expect", folder / "each", "--json")
    assert code == 0, err
    each = json.loads(out)
    code, out, _ = shiftproof("expect", folder / "each", "--target", "size", "--json")
    assert json.loads(out) == each["size"]
    alone = package.expect(folder / "each", target="price")
    assert alone.to_dict() == each["price"]
    code, _, err = shiftproof("expect", folder / "each", "--target", "siz")
    assert code == 2
    assert "unknown target 'siz'; did you mean 'size'" in err
    with pytest.raises(package.ShiftproofError, match="set `target` to one of them"):
        package.expect(folder / "each")


def test_export_and_page(shiftproof: Any, folder: Path, tmp_path: Path) -> None:
    to = ["--to", "onnx", "--out", tmp_path / "m.onnx"]
    code, _, err = shiftproof("export", folder / "model", *to)
    assert code == 0, err
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    stored = session.get_modelmeta().custom_metadata_map
    described = json.loads(stored["shiftproof.json"])
    assert described["targets"] == ["price", "size"]
    assert described["output"]["shape"] == ["n", 2]
    model = package.load_model(folder / "model")
    cells = model.form.read(pd.read_csv(folder / "new.csv")[["a", "b", "c"]])
    expected = model.predict_numbers(cells).values.numpy()
    (predicted,) = session.run(["predicted"], {"inputs": np.array(cells, dtype=np.float64)})
    assert predicted == pytest.approx(expected, rel=1e-5)
    code, _, err = shiftproof(
        "report", folder / "each", "--format", "html", "--out", tmp_path / "r.html"
    )
    assert code == 0, err
    page = (tmp_path / "r.html").read_text()
    assert "price: Linear on homes" in page or "price: linear on homes" in page.lower()
    assert "size: " in page
    assert "R² (%)" in page
    assert "of the variance of the label in a domain that it was not trained on" in page


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--label", "price,siez"], "unknown column of homes.csv 'siez'"),
        (["--label", "price,price"], "--label names 'price' twice"),
        (["--label", "price,city"], "name the same column, 'city'"),
        (
            ["--label", "price,size", "--task", "classification"],
            "must name one column for classification, not several ('price', 'size')",
        ),
        (["--label", "price,kind"], "the label column 'kind' of homes.csv does not hold numbers"),
    ],
)
def test_what_cannot_be_is_one_line(
    shiftproof: Any, folder: Path, tmp_path: Path, options: list[str], words: str
) -> None:
    frame = pd.read_csv(folder / "homes.csv").assign(kind="flat")
    frame.loc[::2, "kind"] = "house"
    frame.to_csv(tmp_path / "homes.csv", index=False)
    asked = ["train", tmp_path / "homes.csv", "--domain", "city", "-a", "linear", *options]
    code, _, err = shiftproof(*asked, "--out", tmp_path / "run")
    assert code == 2
    assert words in err


def test_each_label_is_diagnosed_without_the_other(
    shiftproof: Any, folder: Path, tmp_path: Path
) -> None:
    asked = ["diagnose", folder / "homes.csv", *COLUMNS, "--out", tmp_path / "found.json"]
    code, out, _ = shiftproof(*asked, "--json")
    assert code == 0
    both = json.loads(out)
    assert list(both) == ["price", "size"]
    for name, other in (("price", "size"), ("size", "price")):
        # Not by pandas, whose older versions round the last digit of a number.
        frame = read_frame(folder / "homes.csv")
        alone = package.diagnose(frame, label=name, domain="city", drop=other).to_dict()
        alone = json.loads(json.dumps(alone))
        assert both[name]["shift"] == alone["shift"]
        assert other not in both[name]["advice"]["command"].split("--drop")[0]
        assert json.loads((tmp_path / f"found-{name}.json").read_text())["shift"] == alone["shift"]


@pytest.mark.usefixtures("few_trees")
def test_each_label_has_a_study(shiftproof: Any, folder: Path, tmp_path: Path) -> None:
    asked = ["study", folder / "homes.csv", *COLUMNS, "-a", "linear", "--out", tmp_path / "out"]
    code, out, _ = shiftproof(*asked, "--no-open", "--quiet")
    assert code == 0
    for name in ("price", "size"):
        assert package.load_model(tmp_path / "out" / name).targets == (name,)
        assert f"out/{name}/report.html" in "".join(out.split())


def test_in_python_shifts_are_measured_one_label_at_a_time(folder: Path) -> None:
    with pytest.raises(package.ShiftproofError, match="one label at a time; set `label='price'`"):
        package.diagnose(folder / "homes.csv", label="price,size", domain="city")


def test_a_row_without_one_of_the_labels_is_left_out(folder: Path) -> None:
    frame = pd.read_csv(folder / "homes.csv")
    frame.loc[3, "price"] = np.nan
    frame.loc[7, "size"] = np.nan
    found = package.load(frame, label="price,size", domain="city")
    assert sum(map(len, found.domains)) == len(frame) - 2
    assert any("left out 2 rows without a label" in note for note in found.notes)
    assert found.domains[0].y.shape[1] == 2
