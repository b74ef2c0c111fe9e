"""Several labels: commands handle one after the other, and Python asks for one at a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from _internals import read_table

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
    place: Path = tmp_path_factory.mktemp("labels")
    frame = homes()
    frame[frame.city != "new"].to_csv(place / "homes.csv", index=False)
    frame[frame.city == "new"].to_csv(place / "new.csv", index=False)
    return place


@pytest.mark.parametrize("command", ["train", "expect"])
def test_each_label_has_its_own_runs(
    shiftproof: Any, folder: Path, tmp_path: Path, command: str
) -> None:
    asked = [command, folder / "homes.csv", *COLUMNS, "--out", tmp_path / "runs", "--json"]
    each = ["--test-domain", "each"] if command == "train" else []
    code, out, err = shiftproof(*asked, *each, "-a", "linear")
    assert code == 0, err
    both = json.loads(out)
    assert list(both) == ["price", "size"]
    for name, other in (("price", "size"), ("size", "price")):
        runs = package.train_each(
            read_table(folder / "homes.csv"), "linear", label=name, domain="city", drop=other
        )
        mean = runs.expected.expected["mae"]["mean"]
        assert both[name]["expected"]["mae"]["mean"] == pytest.approx(mean)
        assert (tmp_path / "runs" / name / "x").is_dir()
    code, again, _ = shiftproof(*asked, *each, "-a", "linear")
    assert json.loads(again)["price"] == both["price"]


def test_a_model_of_each_label_is_used_alone(shiftproof: Any, folder: Path, tmp_path: Path) -> None:
    asked = ["train", folder / "homes.csv", *COLUMNS, "-a", "linear", "--out", tmp_path / "runs"]
    code, out, err = shiftproof(*asked)
    assert code == 0, err
    titles = [line for line in out.splitlines() if line.startswith("---")]
    assert titles == ["--- price", "--- size"]
    for name in ("price", "size"):
        assert package.load_model(tmp_path / "runs" / name).targets == (name,)
        new = folder / "new.csv"
        code, out, err = shiftproof("evaluate", tmp_path / "runs" / name, new, "--json")
        assert code == 0, err
        assert json.loads(out)["domains"][0]["scores"]["r2"] > 0.9


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--label", "price,siez"], "unknown column of homes.csv 'siez'"),
        (["--label", "price,city"], "names 'city', which is the label or domain"),
    ],
)
def test_what_cannot_be_is_one_line(
    shiftproof: Any, folder: Path, tmp_path: Path, options: list[str], words: str
) -> None:
    asked = ["train", folder / "homes.csv", "--domain", "city", "-a", "linear", *options]
    code, _, err = shiftproof(*asked, "--out", tmp_path / "run")
    assert code == 2
    assert words in err


@pytest.mark.parametrize("label", ["price,size", ["price", "size"]])
def test_python_takes_one_label(folder: Path, label: Any) -> None:
    message = "`label` must name one column, not 'price', 'size': call train once for each label"
    with pytest.raises(package.ShiftproofError, match=message):
        package.train(folder / "homes.csv", "linear", label=label, domain="city")
    frame = homes()
    with pytest.raises(package.ShiftproofError, match=r"`y` must be \[n\], one entry per sample"):
        package.load((frame[["a"]], frame[["price", "size"]], frame.city))


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
        frame = read_table(folder / "homes.csv")
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
