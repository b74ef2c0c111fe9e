"""Weights on the command line."""

import json

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=90).round(3)
    frame = pd.DataFrame(
        {
            "x": x,
            "site": np.array(["a", "b", "c"])[np.arange(90) % 3],
            "ill": np.where(x + rng.normal(size=90) > 1, "yes", "no"),
            "w": rng.integers(0, 3, size=90),
        }
    )
    path = tmp_path / "patients.csv"
    frame.to_csv(path, index=False)
    return path


def test_train_takes_both_kinds_of_weights(table, tmp_path, shiftproof):
    out = tmp_path / "run"
    code, _, err = shiftproof(
        "train", table, "--label", "ill", "--domain", "site", "--weights-column", "w",
        "--class-weight", "balanced", "--algorithm", "linear", "--test-domain", "c", "--out", out,
    )  # fmt: skip
    assert code == 0, err
    assert "column 'w' weights the rows in training" in err
    assert "all scores weight every row equally" in " ".join(err.split())
    assert json.loads((out / "config.json").read_text())["class_weight"] == "balanced"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--weights-column", "v"], "'v'"),
        (["--weights-column", "site"], "--weights-column names 'site', which is the label or"),
        (["--class-weight", "balancd"], "did you mean 'balanced'"),
        (
            ["--weights-column", "w", "--algorithm", "mixup"],
            "mixup does not support sample weights",
        ),
    ],
)
@pytest.mark.parametrize("command", ["train", "study"])
def test_mistakes_get_one_line(table, tmp_path, shiftproof, command, arguments, said):
    out = tmp_path / "run"
    code, _, err = shiftproof(
        command, table, "--label", "ill", "--domain", "site", "--quiet", "--out", out, *arguments
    )
    assert code == 2
    assert said in " ".join(err.split())
    assert not (out / "model").exists()
