"""`shiftproof study`, as a user calls it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def patients(tmp_path):
    rng = np.random.default_rng(0)
    ill = rng.integers(0, 2, 90)
    path = tmp_path / "patients.csv"
    columns = {"age": rng.normal(size=90) + ill, "ill": ill, "ward": np.repeat(["a", "b", "c"], 30)}
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


def test_one_command_answers(shiftproof, patients, tmp_path):
    out = tmp_path / "study"
    columns = ["--label", "ill", "--domain", "ward"]
    code, text, progress = shiftproof(
        "study", patients, *columns, "--algorithm", "linear", "--out", out
    )
    assert code == 0
    assert "At a ward like these expect" in text
    assert f"The page is {out / 'report.html'}" in text
    assert f"shiftproof predict {out / 'model'} NEW.csv" in text
    assert progress.startswith(f"reading {patients}")


def test_a_wrong_column_is_one_line(shiftproof, patients):
    code, text, error = shiftproof("study", patients, "--label", "il", "--domain", "ward")
    assert (code, text) == (2, "")
    assert "did you mean 'ill'" in error
