"""Vectors in Parquet, `.npy` and `.npz`: the same rows in any of them are the same dataset."""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from _internals import (
    DataError,
    DataRequest,
    InvalidValue,
    UnknownName,
    array_samples,
    read_arrays,
    read_table,
)

from shiftproof import ShiftproofError, load

ROWS, WIDTH = 60, 5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, WIDTH)).astype(np.float32)
Y = np.where(X[:, 0] > 0, "ill", "well")
D = np.array(["north", "south", "east"])[np.arange(ROWS) % 3]


def lists(kind: Any = pa.float32()) -> dict[str, Any]:  # noqa: B008
    return {"e": pa.array(X.tolist(), pa.list_(kind)), "label": Y, "domain": D}


def written(folder: Path, kind: str) -> DataRequest:
    """Write the samples as one kind of file, and return how they are read."""
    path = folder / kind
    if kind == "list.parquet":
        pq.write_table(pa.table(lists()), path)
    elif kind == "fixed.parquet":
        fixed = pa.FixedSizeListArray.from_arrays(X.reshape(-1), WIDTH)
        pq.write_table(pa.table({**lists(), "e": fixed}), path, row_group_size=7)
    elif kind == "columns.csv":
        wide = pd.DataFrame(X.astype(float), columns=[f"e[{i}]" for i in range(WIDTH)])
        wide.assign(label=Y, domain=D).to_csv(path, index=False)
    elif kind == "e.npz":
        np.savez_compressed(path, e=X, y=Y, domains=D, version=1)
    elif kind == "named.npz":
        np.savez(path, e=np.asfortranarray(X), ill=Y, where=D)
        return DataRequest(str(path), label="ill", domain="where")
    else:
        np.save(folder / "e.npy", X.astype(">f4"))
        np.save(folder / "labels.npy", Y)
        np.save(folder / "sites.npy", D.astype("S"))
        return DataRequest(str(folder / "e.npy"), domain=str(folder / "sites.npy"))
    return DataRequest(str(path))


KINDS = ["list.parquet", "fixed.parquet", "columns.csv", "e.npz", "named.npz", "e.npy"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_file_of_vectors_is_the_same_dataset(kind: str, tmp_path: Path) -> None:
    dataset = written(tmp_path, kind).load(seed=0)
    wide = pd.DataFrame(X, columns=[f"e[{i}]" for i in range(WIDTH)])
    expected = load(wide.assign(label=Y, domain=D))
    assert dataset.regime == expected.regime == "features"
    assert dataset.fingerprint == expected.fingerprint
    assert dataset.classes == ("ill", "well")
    north = dict(zip(dataset.domain_names, dataset.domains, strict=True))["north"]
    np.testing.assert_array_equal(north.x.numpy(), X[::3].astype(float))


def test_vectors_with_other_columns_and_without_one_of_two(tmp_path: Path) -> None:
    path = tmp_path / "two.parquet"
    pq.write_table(pa.table({**lists(pa.float64()), "f": lists()["e"], "age": X[:, 1]}), path)
    assert load(path).input_shape == (2 * WIDTH + 1,)
    kept = load(path, drop=["e", "age"])
    assert [column.name for column in kept.preparation.columns] == [f"f[{i}]" for i in range(WIDTH)]


def test_images_in_an_archive(tmp_path: Path) -> None:
    pixels = RNG.integers(0, 255, (ROWS, 1, 8, 8), np.uint8)
    np.savez(tmp_path / "digits.npz", x=pixels, y=Y, domain=D)
    dataset = load(tmp_path / "digits.npz")
    assert (dataset.regime, dataset.input_shape) == ("small-image", (1, 8, 8))
    with pytest.raises(ShiftproofError, match="`drop` is for tables"):
        load(tmp_path / "digits.npz", drop=["x"])


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ([[1.0, 2.0], [1.0]], r"different lengths: 2 numbers in row 1, 1 in row 2"),
        ([[1.0], None], "no vector in row 2"),
        ([[1.0], []], "an empty vector in row 2"),
        ([[0.0] * 70_000] * 2, "vectors of 70,000 numbers"),
    ],
)
def test_vectors_that_are_none(vectors: Any, message: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"e": vectors, "label": ["a", "b"]}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=message):
        read_table(tmp_path / "t.parquet")


def header(described: str, body: bytes = b"") -> bytes:
    text = described.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


HOSTILE = {
    "objects": (header("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"cos\n"), "code"),
    "more than there is": (
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (10**3,)}"),
        "not a file of NumPy arrays",
    ),
    "terabytes": (
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 7)}", b"1"),
        "Unable to allocate",
    ),
    "long texts": (
        header("{'descr': '<U99999999', 'fortran_order': False, 'shape': (1,)}"),
        "is not a file of NumPy arrays",
    ),
    "a negative length": (
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -1)}", b"8" * 8),
        "is not a file of NumPy arrays",
    ),
    "records": (
        header("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,)}", b"8" * 8),
        "neither numbers nor text",
    ),
    "not an array": (b"\x93NUMPY\x01\x00\xff\xff{", "not a file of NumPy arrays"),
    "a program": (header("__import__('os').abort()"), "not a file of NumPy arrays"),
}


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("archive", [False, True], ids=["npy", "npz"])
def test_a_crafted_header_is_one_line(case: str, archive: bool, tmp_path: Path) -> None:
    data, message = HOSTILE[case]
    path = tmp_path / ("x.npz" if archive else "x.npy")
    if archive:
        with zipfile.ZipFile(path, "w") as made:
            made.writestr("x.npy", data)
    else:
        path.write_bytes(data)
    with pytest.raises(DataError, match=message) as error:
        read_arrays(path)
    assert "\n" not in str(error.value)


def test_an_archive_that_unpacks_to_very_much(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, x=np.zeros((2**24, 1)))
    with pytest.raises(DataError, match="unpacks to more than 200 times its own size"):
        read_arrays(path)


def test_labels_that_do_not_fit_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=X, y=Y[:3], domain=D)
    with pytest.raises(DataError, match=r"x.npz: 'y' has 3 entries for 60 samples"):
        array_samples(tmp_path / "x.npz")
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(
        DataError, match=r"has no labels: set `label` to one of its arrays or to a .npy"
    ):
        load(tmp_path / "x.npy")
    np.save(tmp_path / "y.npy", Y[:3])
    with pytest.raises(DataError, match=r"y.npy has 3 entries for the 60 samples of x.npy"):
        load(tmp_path / "x.npy")
    with pytest.raises(DataError, match=r"`label` names x.npy, which holds the inputs"):
        load(tmp_path / "x.npy", label=str(tmp_path / "x.npy"))
    with pytest.raises(InvalidValue, match=r"`label` and `domain` name the same array, .*y.npy"):
        load(tmp_path / "x.npy", label=str(tmp_path / "y.npy"), domain=str(tmp_path / "y.npy"))
    with pytest.raises(DataError, match="has no array 'z', only 'domain', 'x', 'y'"):
        load(tmp_path / "x.npz", label="z")


CODES = (Y == "well").astype(int)


SHAPES: dict[str, tuple[dict[str, Any], str]] = {
    "one-hot": ({"y": np.eye(2)[CODES]}, "'y' holds classes as one-hot rows: save y.argmax"),
    "one-hot, whole": ({"y": np.eye(2, dtype=int)[CODES]}, "'y' holds classes as one-hot rows"),
    "numbers": ({"y": RNG.normal(size=(ROWS, 2))}, r"labels must be \[n\], one entry per sample"),
    "texts": (
        {"y": np.stack([Y, Y], 1)},
        r"shape \(60, 2\); labels must be \[n\], one entry per sample",
    ),
    "one label": (
        {"y": np.array(1)},
        r"'y' is a single value; labels must be \[n\], one entry per sample",
    ),
    "domains": ({"domain": np.stack([D, D], 1)}, r"domains must be \[n\], one entry per sample"),
    "grey": ({"x": X.reshape(ROWS, 5, 1)}, r"save grey images as x\[:, None\]"),
    "two": ({"x": X[:, None, :, None], "z": X[:, None, :, None]}, "two arrays of images, 'x', 'z'"),
}


@pytest.mark.parametrize("case", SHAPES)
def test_an_array_of_the_wrong_shape(case: str, tmp_path: Path) -> None:
    change, message = SHAPES[case]
    np.savez(tmp_path / "x.npz", **{"x": X, "y": Y, "domain": D, **change})
    with pytest.raises(DataError, match=message):
        load(tmp_path / "x.npz")


def test_labels_and_domains_of_one_column(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=X, y=Y[:, None], domain=D[:, None])
    np.savez(tmp_path / "flat.npz", x=X, y=Y, domain=D)
    assert load(tmp_path / "x.npz").fingerprint == load(tmp_path / "flat.npz").fingerprint


def test_several_arrays_of_domains_and_one_of_labels(tmp_path: Path) -> None:
    size = RNG.normal(size=(ROWS, 2))
    year = np.arange(ROWS) % 2
    np.savez(tmp_path / "x.npz", x=X, high=size[:, 0], wide=size[:, 1], site=D, year=year)
    found = load(tmp_path / "x.npz", label="high", domain="site,year")
    frame = pd.DataFrame(X, columns=[f"x[{i}]" for i in range(WIDTH)])
    frame = frame.assign(high=size[:, 0], wide=size[:, 1], site=D, year=year)
    expected = load(frame, label="high", domain="site,year")
    assert found.targets == ("high",)
    assert found.fingerprint == expected.fingerprint
    with pytest.raises(InvalidValue, match="one column, not 'high', 'wide': call train once for"):
        load(tmp_path / "x.npz", label="high,wide", domain="site")
    with pytest.raises(DataError, match="has no array 'wid'"):
        load(tmp_path / "x.npz", label="high,wid", domain="site")


def test_what_is_beside_images_is_left_out_with_a_note(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.zeros((ROWS, 1, 8, 8)), e=X, age=X[:, 0], y=Y, domain=D)
    notes = load(tmp_path / "x.npz").notes
    assert "left out, because x.npz holds images: 'e', 'age'" in notes


def test_the_size_of_what_is_no_image_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.zeros((ROWS, 1, 8, 8)), y=Y, domain=D)
    with pytest.raises(InvalidValue, match=r"`image_size` is for image files; x.npz holds arrays"):
        load(tmp_path / "x.npz", image_size=16)
    np.savez(tmp_path / "v.npz", x=X, y=Y, domain=D)
    with pytest.raises(InvalidValue, match=r"`image_size` is for images, not for tables"):
        load(tmp_path / "v.npz", image_size=16)


@pytest.mark.parametrize(
    "change",
    [
        {"format": 1}, {"format": 9}, {"networks": []},
        {"networks": {"e": "x"}}, {"networks": {"label": {}}},
        {"classes": 3}, {"eval_every": {}}, {"domains": None}, {"target": "ill"}, {"networks": 7},
    ],
    ids=str,
)  # fmt: skip
def test_a_crafted_header_of_features_is_one_line(change: Any, tmp_path: Path) -> None:
    networks = {"e": {"backbone": "b", "weights": "w", "precision": "fp32"}}
    header = {"format": 2, "networks": networks, "classes": [], "domains": [], "extras": []}
    header |= {"eval_every": 1, "target": "", **change}
    described = {b"shiftproof.features": json.dumps(header).encode()}
    pq.write_table(pa.table(lists()).replace_schema_metadata(described), tmp_path / "f.parquet")
    with pytest.raises(DataError) as error:
        load(tmp_path / "f.parquet")
    assert "\n" not in str(error.value)


NETWORKS = {"e": {"backbone": "b", "weights": "w", "precision": "fp32"}}
HEADER = {"format": 2, "networks": NETWORKS, "classes": ["ill", "well"], "target": ""}
HEADER |= {"domains": ["north", "south", "east"], "extras": [], "eval_every": 1}


def features_file(path: Path, **columns: Any) -> Path:
    table = pa.table({**lists(), **columns})
    described = {b"shiftproof.features": json.dumps(HEADER).encode()}
    pq.write_table(table.replace_schema_metadata(described), path)
    return path


def test_columns_that_were_added_to_features(tmp_path: Path) -> None:
    path = features_file(tmp_path / "f.parquet", age=X[:, 1], weight=np.full(ROWS, 2.0))
    dataset = load(path)
    assert dataset.input_shape == (WIDTH,)
    assert "left out, because f.parquet is a file of features: 'age', 'weight'" in dataset.notes
    weighted = load(path, weights_column="weight")
    assert weighted.domains[0].weight_array.tolist() == [2.0] * 20
    with pytest.raises(UnknownName, match=r"column of f.parquet 'w'"):
        load(path, weights_column="w")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"extra": np.ones(ROWS, bool)}, "f.parquet has no domain to train on: all are extra"),
        ({"extra": ["x"] * ROWS}, "column 'extra' of f.parquet must be true or false"),
        ({"label": ["ill"] * ROWS}, "f.parquet has one class only, 'ill'"),
    ],
    ids=["all extra", "extra", "one class"],
)
def test_features_that_cannot_be_trained_on(columns: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        load(features_file(tmp_path / "f.parquet", **columns))


def test_features_without_rows_and_networks_that_are_not_there(tmp_path: Path) -> None:
    path = features_file(tmp_path / "f.parquet")
    with pytest.raises(UnknownName, match=r"network of f.parquet 'f'; known: e"):
        load(path, drop=["f"])
    pq.write_table(pq.read_table(path).slice(0, 0), path)
    with pytest.raises(DataError, match=r"f.parquet has no rows"):
        load(path)
