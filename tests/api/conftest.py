"""A small table, as a frame and as a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest


@pytest.fixture(scope="session")
def wards() -> pd.DataFrame:
    """Three wards whose marker speaks for the illness in two of them and against it in one."""
    rng = np.random.default_rng(0)
    found, rows = [], 40
    for ward, trust in (("a", 0.9), ("b & c", 0.8), ("<i>d", 0.1)):
        ill = np.arange(rows) % 2
        marker = np.where(rng.random(rows) < trust, ill, 1 - ill)
        age = rng.normal(50 + 10 * ill, 10).round(1)
        found.append(pd.DataFrame({"ward": ward, "age": age, "marker": marker, "ill": ill}))
    return pd.concat(found)


@pytest.fixture
def frame(wards: pd.DataFrame) -> pd.DataFrame:
    return wards.copy()


@pytest.fixture
def table(tmp_path: Path, frame: pd.DataFrame) -> Path:
    path = tmp_path / "wards.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(autouse=True)
def silent(capfd: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> object:
    """Fail if a call from Python prints anything."""
    yield
    if "shiftproof" not in request.fixturenames:  # which reads what the command line prints
        assert capfd.readouterr() == ("", "")
