"""predict, evaluate, export: from a run to answers for samples nobody has labelled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from PIL import Image

from shiftproof import TrainedModel

CLASSES = ["no", "yes"]


def patients(seed: int, hospitals: list[str], n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    ill = rng.integers(2, size=n)
    return pd.DataFrame(
        {
            "patient": [f"p{i}" for i in range(n)],
            "hospital": np.array(hospitals)[np.arange(n) % len(hospitals)],
            "age": 50 + 12 * ill + rng.normal(0, 4, n),
            "smokes": rng.choice(["never", "daily"], n),
            "ill": np.array(CLASSES)[ill],
        }
    )


@pytest.fixture
def hospitals(tmp_path: Path, shiftproof: Any) -> Path:
    """A run on two hospitals, and tables of a third."""
    patients(0, ["north", "south"], 200).to_csv(tmp_path / "known.csv", index=False)
    new = patients(1, ["west"])
    new.to_csv(tmp_path / "west.csv", index=False)
    new.drop(columns=["ill", "hospital"]).to_csv(tmp_path / "unlabelled.csv", index=False)
    code, _, err = shiftproof(
        "train", tmp_path / "known.csv", "--label", "ill", "--domain", "hospital",
        "--drop", "patient", "--algorithm", "erm", "--steps", 60, "--out", tmp_path / "run", "-q",
    )  # fmt: skip
    assert code == 0, err
    return tmp_path


def test_predictions_for_a_hospital_never_seen(hospitals: Path, shiftproof: Any) -> None:
    out = hospitals / "deep" / "predictions.csv"
    run, table = hospitals / "run", hospitals / "unlabelled.csv"
    code, printed, err = shiftproof("predict", run, table, "--keep", "patient", "--out", out)
    assert (code, printed) == (0, "")
    found = pd.read_csv(out)
    assert list(found) == [*("row", "patient", "predicted", "p(no)", "p(yes)", "typicality", "far")]
    truth = pd.read_csv(hospitals / "west.csv")
    assert (found.patient == truth.patient).all()
    assert (found.predicted == truth.ill).mean() > 0.85
    np.testing.assert_allclose(found["p(no)"] + found["p(yes)"], 1, atol=1e-5)
    assert "60 predictions (" in err
    assert f"yes: {(found.predicted == 'yes').sum()}" in err
    assert found.far.mean() < 0.1
    # The same on standard output and as Parquet.
    code, printed, _ = shiftproof("predict", run, table, "--quiet")
    assert code == 0
    assert printed.splitlines()[1].split(",")[:2] == ["1", found.predicted[0]]
    assert shiftproof("predict", run, table, "--out", out.with_suffix(".parquet"))[0] == 0
    pd.testing.assert_series_equal(pd.read_parquet(out.with_suffix(".parquet")).far, found.far)


def test_what_is_unlike_anything_is_marked(hospitals: Path, shiftproof: Any) -> None:
    odd = pd.read_csv(hospitals / "unlabelled.csv")
    odd.loc[3, "age"] = 900
    odd.to_csv(hospitals / "odd.csv", index=False)
    code, printed, err = shiftproof("predict", hospitals / "run", hospitals / "odd.csv")
    rows = [line.split(",") for line in printed.splitlines()]
    assert rows[4][-1] == "True"
    assert code == 0
    assert "far from every training domain: what is predicted there is a guess" in err


def test_evaluate_by_domain_and_for_programs(hospitals: Path, shiftproof: Any) -> None:
    both = pd.concat([pd.read_csv(hospitals / "west.csv"), patients(2, ["east"], 40)])
    both = both.reset_index(drop=True)
    both.loc[both.index[:3], "ill"] = None
    both.loc[both.index[-1], "ill"] = "perhaps"
    both.to_csv(hospitals / "both.csv", index=False)
    run = hospitals / "run"
    code, printed, err = shiftproof("evaluate", run, hospitals / "both.csv", "--json")
    assert code == 0
    outcome = json.loads(printed)
    east, west = outcome["domains"]
    assert (east["domain"], east["samples"], east["unknown"]) == ("east", 40, 1)
    assert (west["domain"], west["samples"], west["trained_on"]) == ("west", 57, False)
    counted = np.array(west["confusion"])
    assert counted.sum() == 57
    assert west["accuracy"] == pytest.approx(np.trace(counted) / 57)
    assert west["standard_error"] == pytest.approx(
        np.sqrt(west["accuracy"] * (1 - west["accuracy"]) / 57)
    )
    assert "left out 3 samples without a label" in err
    assert "1 of 97 samples have classes that the model does not know" in err
    code, printed, err = shiftproof("evaluate", run, hospitals / "known.csv")
    assert code == 0
    assert "north (trained on)" in printed
    assert "worst" in printed
    assert "the accuracy there is too optimistic" in err
    assert west["scores"]["accuracy"] == west["accuracy"]
    assert "calibration slope" in printed
    # Without a column of domains all is one.
    pd.read_csv(hospitals / "west.csv").drop(columns="hospital").to_csv(hospitals / "a.csv")
    assert "all" in shiftproof("evaluate", run, hospitals / "a.csv")[1]


def test_export_for_onnxruntime(hospitals: Path, shiftproof: Any) -> None:
    code, printed, _ = shiftproof("export", hospitals / "run", "--to", "onnx")
    assert code == 0
    file = hospitals / "run" / "exported.onnx"
    assert str(file) in printed
    described = json.loads(file.with_suffix(".json").read_text())
    frame = pd.read_csv(hospitals / "unlabelled.csv")
    cells = np.stack(
        [
            frame[column["name"]].map({v: i for i, v in enumerate(column["values"])})
            if column["kind"] == "category"
            else frame[column["name"]]
            for column in described["input"]["columns"]
        ],
        axis=1,
    ).astype(described["input"]["dtype"])
    session = onnxruntime.InferenceSession(str(file))
    (found,) = session.run(None, {described["input"]["name"]: cells})
    _, printed, _ = shiftproof("predict", hospitals / "run", hospitals / "unlabelled.csv")
    expected = [float(line.split(",")[3]) for line in printed.splitlines()[1:]]
    assert described["classes"] == CLASSES
    np.testing.assert_allclose(found[:, 1], expected, atol=1e-5)
    code, printed, _ = shiftproof(
        "export", hospitals / "run", "--to", "safetensors", "--out", hospitals / "m.safetensors"
    )
    assert code == 0
    assert shiftproof("predict", hospitals / "m.safetensors", hospitals / "west.csv")[0] == 0


def test_photographs_of_any_depth_and_by_manifest(tmp_path: Path, shiftproof: Any) -> None:
    rng = np.random.default_rng(0)
    for domain in ("day", "night", "fog"):
        for label, level in (("cat", 0), ("dog", 128)):
            (tmp_path / "photos" / domain / label).mkdir(parents=True)
            for i in range(4):
                pixels = rng.integers(level, level + 99, (30, 30, 3), dtype=np.uint8)
                path = tmp_path / "photos" / domain / label / f"{i}.png"
                Image.fromarray(pixels).save(path)
    run = tmp_path / "run"
    code, _, err = shiftproof(
        "train", tmp_path / "photos", "--algorithm", "erm", "--backbone", "resnet18", "--weights",
        "random", "--freeze", "--image-size", 32, "--steps", 30, "--test-domain", "fog",
        "--out", run, "-q",
    )  # fmt: skip
    assert code == 0, err
    (tmp_path / "photos" / "fog" / "cat" / "broken.png").write_bytes(b"no picture")
    code, printed, err = shiftproof("predict", run, tmp_path / "photos" / "fog")
    assert code == 0
    rows = [line.split(",") for line in printed.splitlines()]
    assert rows[0][:2] == ["path", "predicted"]
    assert [row[0] for row in rows[1:3]] == ["cat/0.png", "cat/1.png"]
    assert len(rows) == 9
    assert "left out 1 of 9 images that cannot be read" in err
    table = "picture,kind,place\n" + "".join(
        f"photos/fog/{label}/{i}.png,{label},fog\n" for label in ("cat", "dog") for i in range(4)
    )
    (tmp_path / "list.csv").write_text(table)
    code, by_list, _ = shiftproof("predict", run, tmp_path / "list.csv", "--image", "picture")
    assert code == 0
    assert [line.split(",")[1:] for line in by_list.splitlines()[1:]] == [r[1:] for r in rows[1:]]
    code, printed, _ = shiftproof(
        "evaluate", run, tmp_path / "list.csv", "--image", "picture", "--label", "kind", "--json"
    )
    right = np.mean([row[0].startswith(row[1]) for row in rows[1:]])
    assert json.loads(printed)["domains"][0]["accuracy"] == pytest.approx(right)
    assert "fog" in shiftproof("evaluate", run, tmp_path / "photos")[1]
    one = tmp_path / "photos" / "fog" / "dog" / "1.png"
    assert len(shiftproof("predict", run, one)[1].splitlines()) == 2


def test_digits_by_name_and_as_arrays(tmp_path: Path, shiftproof: Any) -> None:
    run = tmp_path / "run"
    code, _, err = shiftproof(
        "train", "colored-mnist-irm", "--algorithm", "erm", "--test-domain", "10%", "--steps", 2,
        "--evaluate", "extra", "--out", run, "-q",
    )  # fmt: skip
    assert code == 0, err
    np.save(tmp_path / "x.npy", np.zeros((3, 2, 14, 14), np.uint8))
    code, printed, _ = shiftproof("predict", run, tmp_path / "x.npy")
    assert (code, len(printed.splitlines())) == (0, 4)
    np.savez(
        tmp_path / "x.npz",
        x=np.zeros((3, 2, 14, 14)),
        y=["0-4", "5-9", "5-9"],
        domain=["a", "b", "b"],
    )
    code, printed, _ = shiftproof("evaluate", run, tmp_path / "x.npz", "--json")
    assert [domain["samples"] for domain in json.loads(printed)["domains"]] == [1, 2]
    np.save(tmp_path / "x.npy", np.array([{}]), allow_pickle=True)
    code, _, err = shiftproof("predict", run, tmp_path / "x.npy")
    assert code == 2
    assert "holds Python objects, which could run code (none was run)" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict", "run", "nowhere.csv"], "no such file or folder: nowhere.csv"),
        (["predict", "nowhere", "west.csv"], "no such run or model: nowhere"),
        (["predict", "run", "west.csv", "--keep", "patent"], "did you mean 'patient'?"),
        (["predict", "run", "west.csv", "--out", "p.txt"], "--out must end in .csv or .parquet"),
        (["predict", "run", "west.csv", "--out", "west.csv"], "--out is the data itself, west.csv"),
        (
            ["predict", "run", "columnless.csv"],
            "is missing columns that the model needs: 'age', 'smokes'",
        ),
        (["predict", "run", "."], "the model takes rows of a table"),
        (["predict", "run", "rotated-mnist"], "but the model takes"),
        (["evaluate", "run", "unlabelled.csv"], "unknown column of unlabelled.csv 'ill'"),
        (["evaluate", "run", "others.csv"], "none of the labels is a class of the model"),
        (["export", "run", "--to", "onyx"], "did you mean 'onnx'?"),
        (["export", "run", "--to", "onnx", "--out", "m.pt"], "--out must end in .onnx"),
    ],
    ids=lambda value: "-".join(value[:3]) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_line(
    hospitals: Path, shiftproof: Any, monkeypatch: Any, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(hospitals)
    (hospitals / "columnless.csv").write_text("a,b\n1,2\n")
    frame = pd.read_csv(hospitals / "west.csv")
    frame.assign(ill=frame.ill.map({"no": "healthy", "yes": "sick"})).to_csv("others.csv")
    code, _, err = shiftproof(*arguments)
    assert (code, err.count("\n")) == (2, 1), err
    assert message in err


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_ctrl_c_is_one_line_and_leaves_nothing(
    hospitals: Path, shiftproof: Any, monkeypatch: Any, command: str
) -> None:
    def interrupted(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(TrainedModel, "predict", interrupted)
    out = ["--out", hospitals / "p.csv"] if command == "predict" else []
    code, printed, err = shiftproof(command, hospitals / "run", hospitals / "west.csv", *out)
    assert (code, printed) == (130, "")
    assert err == "Interrupted. Run the same command again to resume.\n"
    assert not (hospitals / "p.csv").exists()


def test_what_does_not_fit_the_model_is_said(
    hospitals: Path, shiftproof: Any, tmp_path: Path
) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    code, _, err = shiftproof("predict", hospitals / "run", tmp_path / "a.png")
    assert (code, err.count("\n")) == (2, 1)
    assert "is an image, but the model takes rows of a table" in err
    code, _, err = shiftproof("predict", hospitals / "run", hospitals / "west.csv", "--image", "x")
    assert (code, err.count("\n")) == (2, 1)
    assert "--image is for models of images" in err
    (hospitals / "run" / "p.csv").mkdir()
    code, _, err = shiftproof(
        "predict", hospitals / "run", hospitals / "west.csv", "--out", hospitals / "run" / "p.csv"
    )
    assert code == 2
    assert "is a folder; name a file to write" in err
