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


def test_a_model_finds_arrays_by_the_names_of_training(folder: Path, shiftproof: Any) -> None:
    with np.load("x.npz") as found:
        np.savez("own.npz", e=found["embedding"], ill=found["y"], site=found["domain"])
    code, _, err = shiftproof("train", "own.npz", "--label", "ill", "--domain", "site",
                              "--algorithm", "linear", "--test-domain", "south", "--out", "run",
                              "-q")  # fmt: skip
    assert code == 0, err
    code, printed, err = shiftproof("evaluate", "run", "own.npz", "--json", "-q")
    assert code == 0, err
    assert [own["domain"] for own in json.loads(printed)["domains"]] == ["east", "north", "south"]
    code, printed, err = shiftproof("predict", "run", "own.npz", "-q")
    assert code == 0, err
    assert printed.startswith("row,domain,predicted,")


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_vectors_of_another_length_are_refused(folder: Path, shiftproof: Any, command: str) -> None:
    """The first components of a longer vector are not those that the model was trained on."""
    code, _, err = shiftproof("train", "x.parquet", "--algorithm", "erm", "--steps", "1", "-q",
                              "--hparam", "batch_size=8", "--out", "run")  # fmt: skip
    assert code == 0, err
    for width in (3, 5):
        frame = pd.read_parquet("x.parquet")
        frame["embedding"] = [np.resize(vector, width) for vector in frame["embedding"]]
        frame.to_parquet("other.parquet")
        code, printed, err = shiftproof(command, "run", "other.parquet", "-q")
        assert (code, printed, err.count("\n")) == (2, "", 1)
        told = f"'embedding' of other.parquet has vectors of {width} numbers, but the model takes 4"
        assert told in err


def test_predicting_needs_no_labels(folder: Path, shiftproof: Any) -> None:
    """Labels and domains beside the new vectors may be those of other vectors."""
    np.save("domains.npy", np.load("sites.npy"))
    code, _, err = shiftproof("train", "x.npy", "--algorithm", "linear", "--out", "run", "-q")
    assert code == 0, err
    np.save("new.npy", np.load("x.npy")[:7])
    code, printed, err = shiftproof("predict", "run", "new.npy", "-q")
    assert (code, len(printed.splitlines())) == (0, 8), err
    assert printed.startswith("row,predicted,")
    np.save("narrow.npy", np.load("x.npy")[:, :3])
    np.save("image.npy", np.zeros((5, 1, 8, 8)))
    for name, message in (
        ("narrow.npy", "narrow.npy has vectors of 3 numbers, but the model takes 4"),
        ("image.npy", "image.npy has shape (5, 1, 8, 8), but the model takes rows of 4 columns"),
    ):
        code, _, err = shiftproof("predict", "run", name)
        assert code == 2
        assert message in err, err
        assert len(err.splitlines()) == 1


def test_numbers_beyond_single_precision(folder: Path, shiftproof: Any) -> None:
    np.save("domains.npy", np.load("sites.npy"))
    x = np.load("x.npy").astype(float)
    np.save("large.npy", np.concatenate([x, 1e300 * x[:, :1]], axis=1))
    code, _, err = shiftproof("train", "large.npy", "--algorithm", "linear", "--out", "run", "-q")
    assert (code, err) == (0, "")
    code, _, err = shiftproof("predict", "run", "large.npy", "-q")
    assert code == 0, err
    assert "warning" not in err


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
    for name in ("pickled.npy", "pickled.npz"):
        Path(name).write_bytes(b"\x80\x04\x95\x1f\x00\x00\x00\x00\x8c\x05posix\n")
    for arguments, message in (
        (
            ["train", "x.npy"],
            "x.npy has no domains: set --domain to one of its arrays or to a .npy",
        ),
        (["train", "x.npz", "--label", "z"], "x.npz has no array 'z', only 'domain', 'embedding'"),
        (["train", "x.npy", "--domain", "s.npy"], "no such file: s.npy"),
        (["train", "pickled.npy"], "pickled.npy is not a file of NumPy arrays"),
        (["train", "pickled.npz"], "pickled.npz is not a file of NumPy arrays"),
        (
            ["train", "x.npz", "--algorithm", "linear", "--weights", "random"],
            "linear has no weights to start from",
        ),
        (["features", "x.npz", "--out", "f.parquet"], "DATA must be images, and x.npz has none"),
    ):
        code, _, err = shiftproof(*arguments)
        assert code == 2
        assert message in err, err
        assert len(err.splitlines()) == 1
