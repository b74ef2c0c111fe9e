"""What a model file tells of single rows, and of domains that were held out."""

from __future__ import annotations

import contextlib
import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
import torch
from _internals import (
    FEWEST_IN_A_MEAN,
    CheckpointError,
    RunFolder,
    TableForm,
    Typicality,
    configure,
    description,
    export_FORMATS as FORMATS,
    model_bytes,
    smooth_quantiles,
    table_dataset,
    train,
    trained_model,
)
from sklearn.neighbors import KNeighborsClassifier

from shiftproof import ShiftproofError, TrainedModel

SITES = ("a", "b", "c")


def patients() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "site": np.repeat(SITES, 30),
            "age": rng.normal(50, 9, 90).round(1),
            "creatinine": rng.normal(1, 0.3, 90).round(3),
            "ward": rng.choice(["x", "y", "z"], 90),
            "ill": rng.choice(["no", "yes"], 90),
        }
    )
    # Only the held-out site has these wards.
    frame.loc[frame.site == "c", "ward"] = [f"secret-{n % 3}" for n in range(30)]
    return frame


def made(
    frame: pd.DataFrame, folder: Path, algorithm: Any = "erm", **settings: Any
) -> TrainedModel:
    dataset = table_dataset(frame, "patients", "ill", "site")
    config = configure(
        dataset, algorithm, steps=3, test_domains=["c"], device="cpu", holdout=0.0,
        evaluate=["test-in"], **settings,
    )  # fmt: skip
    train(config, dataset, folder)
    return trained_model(config, dataset, folder)


# --- planted rows -----------------------------------------------------------------------------

# Values of single training rows: the oldest and the youngest, and a value that only two rows have.
AGES, CREATININE, RARE = (103.2718, -7.6193), 44.3471, (0.7183, 9.1519)


def planted() -> pd.DataFrame:
    """Rows that no file may tell of: names, extreme values, a test that two patients had."""
    frame = patients()
    frame["note"] = "none"
    frame.loc[:12, "note"] = [f"patient-{n}" for n in range(13)]
    frame["ferritin"] = np.nan
    frame.loc[[3, 40], "ferritin"] = RARE
    frame.loc[[5, 41], "age"] = AGES
    frame.loc[7, "creatinine"] = CREATININE
    return frame


def contents(data: bytes) -> bytes:
    """Return the bytes of a file, and of all archives in it, unpacked."""
    found = [data]
    start = data.find(b"PK\x03\x04")
    if start >= 0:
        with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(io.BytesIO(data)) as pack:
            found += [contents(pack.read(name)) for name in pack.namelist()]
    return b"".join(found)


def told(data: bytes) -> list[str]:
    """Return which planted values a file holds, as text or as a number of 4 or 8 bytes."""
    found = [text for text in ("patient-", "secret") if text.encode() in data]
    for number in (*AGES, CREATININE, *RARE):
        short = struct.pack("<f", number)
        rounded = struct.pack("<d", *struct.unpack("<f", short))
        spelled = (struct.pack("<d", number), short, rounded, str(number).encode())
        if any(each in data for each in spelled):
            found.append(str(number))
    return found


LEARNERS = {
    "erm": {},
    "linear": {},
    "boosting": {"trees": 20},
    "forest": {"trees": 20, "smallest_leaf": 5},
    "best": {"budget": 30.0},
}


@pytest.mark.parametrize("algorithm", LEARNERS)
def test_no_file_tells_of_planted_rows(algorithm: str, tmp_path: Path) -> None:
    frame = planted()
    model = made(frame, tmp_path, algorithm, hparams=LEARNERS[algorithm])
    files = {"model": model.to_bytes()}
    assert RunFolder(tmp_path).checkpoint.exists() == (algorithm == "erm")
    if algorithm != "best":  # its members are those of the others
        files["onnx"] = FORMATS["onnx"][0](model)
    files["description"] = json.dumps(description(model)).encode()
    for path in tmp_path.iterdir():
        if path.is_file():
            files[path.name] = path.read_bytes()
    for name, data in files.items():
        assert told(contents(data)) == [], name
    # A rare value is predicted as one that was never seen.
    rows = frame.head(20)
    known, unknown = (model.form.read(rows.assign(note=note)) for note in ("patient-3", "new"))
    assert np.array_equal(model.predict_proba(known), model.predict_proba(unknown))


def test_the_search_for_planted_rows_can_fail() -> None:
    frame = planted()
    assert told(frame.to_csv().encode()) == [
        "patient-",
        "secret",
        *map(str, (*AGES, CREATININE, *RARE)),
    ]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as pack:
        pack.writestr("a", frame.age.to_numpy().tobytes())
    assert told(contents(packed.getvalue())) == [str(age) for age in AGES]


@pytest.mark.parametrize("algorithm", ["erm", "forest"])
def test_a_private_model_holds_only_what_predicting_needs(algorithm: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {}
    if algorithm == "forest":
        settings["hparams"] = {"trees": 20, "smallest_leaf": 1}
    open_model = made(planted(), tmp_path / "open", algorithm, **settings)
    model = made(planted(), tmp_path / "private", algorithm, private=True, **settings)
    data = contents(model.to_bytes())
    assert told(data) == []
    assert b"typicality" not in data
    assert open_model.config.fingerprint.encode() not in data
    assert model.domains == model.config.test_domains == ()
    again = TrainedModel.from_bytes(model.to_bytes(), "cpu")
    found = again.predict(again.form.read(planted()))
    assert np.isnan(found.typicality).all()
    if algorithm == "erm":
        expected = open_model.predict(open_model.form.read(planted()))
        assert np.array_equal(found.probabilities, expected.probabilities)
        with pytest.raises(ShiftproofError, match="train it again with `private`"):
            open_model.without_training_data()
        return
    # Every leaf of a tree holds 10 of the 60 rows or more, so there are at most 6.
    for one, most in ((again, 6), (open_model, 60)):
        (member,) = one.network.algorithm.ensemble.members
        first = np.cumsum(member.model.sizes) - member.model.sizes
        leaves = np.add.reduceat(member.model.right == 0, first)
        assert max(leaves) <= most
        assert most == 6 or max(leaves) > 6


def test_an_estimator_of_the_users_cannot_be_private(tmp_path: Path) -> None:
    """Nearest neighbours are the training rows."""
    with pytest.raises(ShiftproofError, match="`private` needs a named `algorithm`"):
        made(planted(), tmp_path, KNeighborsClassifier(), private=True)


def test_a_header_without_typicality_is_refused_unless_private(tmp_path: Path) -> None:
    model = made(patients(), tmp_path)
    arrays = safetensors.numpy.load(model.to_bytes())
    left = {name: a for name, a in arrays.items() if not name.startswith("typicality")}
    data = model_bytes(model.described(), left)
    with pytest.raises(CheckpointError, match="not a valid model file"):
        TrainedModel.from_bytes(data, "cpu")


def test_quantiles_are_means_of_ten_rows() -> None:
    x = np.random.default_rng(0).normal(size=(101, 2)) ** 3
    found = smooth_quantiles(x, 11)
    ordered = np.sort(x, axis=0)
    np.testing.assert_allclose(found[0], ordered[:10].mean(axis=0))
    np.testing.assert_allclose(found[-1], ordered[-10:].mean(axis=0))
    np.testing.assert_allclose(found[5], ordered[46:56].mean(axis=0))  # around the 51st
    # What many rows share stays as it is.
    shared = np.repeat([[0.1], [0.7]], 50, axis=0)
    assert set(smooth_quantiles(shared, 11)[:, 0]) >= {0.1, 0.7}


# --- held-out domains -------------------------------------------------------------------------


def test_categories_of_a_held_out_domain_are_not_in_the_model(tmp_path: Path) -> None:
    frame = patients()
    model = made(frame, tmp_path)
    assert b"secret" not in model.to_bytes()
    assert isinstance(model.form, TableForm)
    assert [n for n in model.form.columns.feature_names if "ward" in n] == [
        "ward=x", "ward=y", "ward=z",
    ]  # fmt: skip
    # They were, and are, unknown: the same predictions as with any other unknown value.
    held_out = frame[frame.site == "c"]
    found = model.form.read(held_out)
    torch.testing.assert_close(found, model.form.read(held_out.assign(ward="never seen")))
    # The codes of an array of cells are still those of the dataset.
    dataset = table_dataset(frame, "patients", "ill", "site")
    cells = np.concatenate([domain.rows() for domain in dataset.domains])
    torch.testing.assert_close(model.form.read(cells), model.form.read(frame))


def test_a_missing_cell_is_not_a_value_that_was_left_out(tmp_path: Path) -> None:
    frame = patients()
    model = made(frame, tmp_path)
    for empty in ("", None, np.nan):
        cells = model.form.cells(frame.head(3).assign(ward=empty))
        assert np.isnan(cells[:, 2]).all()


@pytest.mark.parametrize("others", [0, 5, 12])
def test_no_mean_is_that_of_a_few_rows(others: int) -> None:
    """One patient of 77 years with a creatinine of 4.321, and other small domains."""
    rng = np.random.default_rng(0)
    domains = {
        "one": np.array([[77.0, 4.321]]),
        "large": rng.normal(size=(50, 2)),
        "larger": rng.normal(size=(60, 2)),
    }
    domains |= {f"few {n}": rng.normal(size=(1, 2)) for n in range(others)}
    found = Typicality.fit(domains, {"large": domains["large"]})
    few = 1 + others
    assert len(found.means) == (3 if few >= FEWEST_IN_A_MEAN else 2)
    for row in np.concatenate(list(domains.values())):
        assert not (np.abs(found.means - row).min(axis=1) < 1e-6).any()
    # The mean of each group is that of at least ten rows.
    small = np.concatenate([r for r in domains.values() if len(r) == 1])
    if few >= FEWEST_IN_A_MEAN:
        np.testing.assert_allclose(found.means[-1], small.mean(axis=0))
    else:
        joined = np.concatenate([domains["large"], small])
        np.testing.assert_allclose(found.means[0], joined.mean(axis=0))
    np.testing.assert_array_equal(found.distances, np.sort(found.distances))
