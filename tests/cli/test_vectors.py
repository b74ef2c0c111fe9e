"""Files of vectors through every command that takes a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    site = np.repeat(["north", "south", "east"], 40)
    y = rng.integers(2, size=120)
    x = (rng.normal(size=(120, 4)) + 2 * y[:, None]).astype(np.float32)
    np.save("x.npy", x)
    np.save("labels.npy", y)
    np.save("sites.npy", site)
    np.savez("x.npz", embedding=x, y=y, domain=site)
    frame = pd.DataFrame({"embedding": list(x), "label": y, "domain": site})
    frame.to_parquet("x.parquet")
    return tmp_path


def test_the_same_run_from_each_file(folder: Path, shiftproof: Any) -> None:
    """The columns have other names, and all else is the same."""
    found = []
    for name, more in (("x.npy", ["--domain", "sites.npy"]), ("x.npz", []), ("x.parquet", [])):
        out = f"run-{name}"
        code, printed, err = shiftproof(
            "train", name, *more, "--algorithm", "linear", "--test-domain", "south", "--out", out,
            "--json", "-q",
        )  # fmt: skip
        assert code == 0, err
        found.append(json.loads(printed)["metrics"])
    assert found[0] == found[1] == found[2]
    assert found[0]["accuracy"] > 0.9
    for run in ("run-x.npy", "run-x.parquet"):  # a model takes vectors of another name
        for name in ("x.npy", "x.npz", "x.parquet"):
            code, printed, err = shiftproof("predict", run, name, "-q")
            assert (code, len(printed.splitlines())) == (0, 121), err
    code, printed, err = shiftproof("evaluate", "run-x.parquet", "x.npz", "--json", "-q")
    assert code == 0, err
    domains = json.loads(printed)["domains"]
    assert [own["domain"] for own in domains] == ["east", "north", "south"]
    code, printed, err = shiftproof("evaluate", "run-x.npz", "x.npy", "--domain", "sites.npy",
                                    "--json", "-q")  # fmt: skip
    assert code == 0, err
    assert json.loads(printed)["domains"] == domains


def test_diagnosis_and_sweep(folder: Path, shiftproof: Any) -> None:
    code, printed, err = shiftproof("diagnose", "x.npz", "--json", "-q")
    assert code == 0, err
    assert "embedding[0]" in printed
    code, _, err = shiftproof(
        "sweep", "x.parquet", "--algorithms", "erm", "--steps", "1", "--trials", "1",
        "--n-hparams", "1", "--dry-run", "--out", "sweep", "-q",
    )  # fmt: skip
    assert code == 0, err


def test_a_mistake_is_one_line(folder: Path, shiftproof: Any) -> None:
    for arguments, message in (
        (["train", "x.npy"], "x.npy has no domains: set --domain to an array of it"),
        (["train", "x.npz", "--label", "z"], "x.npz has no array 'z', only 'domain', 'embedding'"),
        (["train", "x.npy", "--domain", "s.npy"], "no such file: s.npy"),
        (["features", "x.npz", "--out", "f.parquet"], "is for images"),
    ):
        code, _, err = shiftproof(*arguments)
        assert code == 2
        assert message in err, err
        assert len(err.splitlines()) == 1
