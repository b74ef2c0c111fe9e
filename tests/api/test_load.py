"""`load`: everything that data can be given as."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from shiftproof import DomainDataset, ShiftproofError, load

COLUMNS = {"label": "ill", "domain": "ward"}


def test_a_frame_is_the_same_data_as_its_file(table: Path, frame: pd.DataFrame) -> None:
    by_text, by_path = load(str(table), **COLUMNS), load(table, **COLUMNS)
    by_frame = load(frame, **COLUMNS)
    assert by_text.fingerprint == by_path.fingerprint == by_frame.fingerprint
    assert (by_path.name, by_frame.name) == ("wards.csv", "table")
    assert by_path.columns == by_frame.columns == {"label": "ill", "domain": "ward"}
    # The index of a frame plays no part, and the caller's frame stays as it is.
    before = frame.copy()
    shuffled = frame.set_index(np.arange(len(frame))[::-1])
    found = load(shuffled, **COLUMNS, categorical="marker", drop=["age"])
    assert (
        found.fingerprint == load(table, **COLUMNS, categorical=["marker"], drop="age").fingerprint
    )
    assert found.input_shape == (1,)
    pd.testing.assert_frame_equal(frame, before)


def test_columns_have_their_usual_names_by_default(frame: pd.DataFrame) -> None:
    found = load(frame.rename(columns={"ill": "label", "ward": "domain"}))
    assert found.columns == {"label": "label", "domain": "domain"}


def test_arrays(frame: pd.DataFrame) -> None:
    x = frame[["age", "marker"]].to_numpy()
    found = load((x, frame.ill, frame.ward))
    assert found.domain_names == ("<i>d", "a", "b & c")
    assert found.columns == {}


def test_loaded_data_is_returned_as_it_is(frame: pd.DataFrame) -> None:
    found = load(frame, **COLUMNS)
    assert load(found) is found
    assert isinstance(found, DomainDataset)


def test_a_name_with_options_and_seed() -> None:
    small = {"options": {"per_domain": 50}}
    found = load("colored-mnist-irm", **small)
    assert [len(domain) for domain in found.domains] == [50, 50, 50]
    assert load("colored-mnist-irm", **small, seed=1).fingerprint != found.fingerprint
    assert load("colored-mnist-irm", options={"per_domain": "50"}).fingerprint == found.fingerprint


def test_a_folder_and_its_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for domain in ("day", "night"):
        for label in ("cat", "dog"):
            (tmp_path / "colored-mnist" / domain / label).mkdir(parents=True)
            Image.new("RGB", (9, 9)).save(tmp_path / "colored-mnist" / domain / label / "1.png")
    calls: list[tuple[str, int, int]] = []
    # A path is a path, also if a dataset has the same name.
    monkeypatch.chdir(tmp_path)
    found = load(Path("colored-mnist"), image_size=8, progress=lambda *call: calls.append(call))
    assert found.domain_names == ("day", "night")
    assert found.input_shape == (3, 8, 8)
    assert calls[-1][1:] == (4, 4)


def test_a_manifest_knows_its_columns(tmp_path: Path) -> None:
    rows = [f"{place}{animal}.png,{place},{animal}" for place in "xy" for animal in ("cat", "dog")]
    for row in rows:
        Image.new("RGB", (9, 9)).save(tmp_path / row.split(",")[0])
    (tmp_path / "list.csv").write_text("\n".join(["file,domain,animal", *rows]) + "\n")
    found = load(tmp_path / "list.csv", image="file", label="animal", image_size=8)
    assert found.columns == {"label": "animal", "domain": "domain", "image": "file"}


@pytest.mark.parametrize(
    ("data", "settings", "words"),
    [
        (7, {}, "`data` must be a dataset name, a path, .* not int"),
        ((1, 2), {}, "not tuple"),
        (
            "colored-mnist",
            {"label": "x"},
            "`label` is for tables and manifests; colored-mnist is a",
        ),
        ("colored-mnist", {"seed": -1}, "`seed` must be at least 0, not -1"),
        ("nowhere.csv", {}, "no such file or folder: nowhere.csv"),
        (
            "pets",
            {"options": {"image_size": 8}, "image_size": 9},
            "`options` give image_size twice",
        ),
        ("frame", {"label": "il"}, "did you mean 'ill'"),
        ("frame", {**COLUMNS, "image": "age"}, "`image` is for manifests that are files"),
        ("frame", {**COLUMNS, "image_size": 8}, "`image_size` is for images, not for tables"),
        (
            "loaded",
            {"label": "ill"},
            "`label` is for tables and manifests; `data` is a DomainDataset",
        ),
        ("loaded", {"image_size": 8}, "`options` and `image_size` are for files"),
    ],
)
def test_a_mistake_is_one_line_of_python(
    frame: pd.DataFrame, data: object, settings: dict[str, object], words: str
) -> None:
    given = {"frame": frame, "loaded": load(frame, **COLUMNS)}.get(str(data), data)
    with pytest.raises(ShiftproofError, match=words) as error:
        load(given, **settings)  # type: ignore[arg-type]
    assert "--" not in str(error.value)
    assert "\n" not in str(error.value)


def test_any_path_like(table: Path) -> None:
    class Somewhere(os.PathLike[str]):
        def __fspath__(self) -> str:
            return str(table)

    assert load(Somewhere(), **COLUMNS).name == "wards.csv"
