"""Lists of images as their publishers write them: camera traps, Waterbirds, CelebA."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from _internals import (
    DataError,
    DataSettings,
    ImageForm,
    SampleRequest,
    TensorForm,
    preflight_check_data as check_data,
)
from PIL import Image

from shiftproof import load


def put(root: Path, *places: str) -> None:
    for number, place in enumerate(places):
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (number * 37 % 256, number * 11 % 256, 9)).save(root / place)


def traps(root: Path) -> Path:
    images = [
        {"id": f"{place}-{n}", "file_name": f"{place}/{n}.jpg", "location": place, "night": n % 2}
        for place in ("creek", "ridge")
        for n in range(6)
    ]
    shown = [{"image_id": image["id"], "category_id": n % 2} for n, image in enumerate(images)]
    content = {
        "images": [*images, {"id": "bare", "file_name": "bare.jpg", "location": "creek"}],
        "annotations": [*shown, {"image_id": "ridge-5", "category_id": 0}],
        "categories": [{"id": 0, "name": "deer"}, {"id": 1, "name": "fox"}],
    }
    root.mkdir(parents=True)
    (root / "traps.json").write_text(json.dumps(content))
    return root / "traps.json"


def test_camera_traps_by_location(tmp_path: Path) -> None:
    file = traps(tmp_path / "own")
    put(
        tmp_path / "own" / "images", *(f"{p}/{n}.jpg" for p in ("creek", "ridge") for n in range(6))
    )
    dataset = load(file)
    assert dataset.classes == ("deer", "fox")
    assert {d.name: len(d) for d in dataset.domains} == {"creek": 6, "ridge": 5}
    assert "left out 1 image of two categories" in dataset.notes
    assert "left out 1 image without an annotation" in dataset.notes
    assert "the paths in traps.json start at images" in dataset.notes
    by_night = load(file, domain="night")
    assert {d.name: len(d) for d in by_night.domains} == {"0": 6, "1": 5}
    with pytest.raises(DataError, match="have no entry 'nigth'; set `domain` to one of"):
        load(file, domain="nigth")
    (tmp_path / "bad.json").write_text('{"images": 3}')
    with pytest.raises(DataError, match="not a file of COCO Camera Traps"):
        load(tmp_path / "bad.json")


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no list": ({"categories": None}, "not a file of COCO Camera Traps"),
    "no entry": ({"annotations": [{"image_id": "creek-0"}]}, "'category_id' is missing"),
    "category": (
        {"annotations": [{"image_id": "creek-0", "category_id": 7}]},
        "an annotation has the category 7, which is not listed",
    ),
    "no images": ({"images": []}, "traps.json lists no images"),
    "no annotations": ({"annotations": []}, "left out 13 images without an annotation"),
    "two of one id": (
        {"images": [{"id": 1, "file_name": f"{place}.jpg", "location": place} for place in "ab"]},
        "two images of traps.json have the id 1",
    ),
    "a folder above": (
        {"images": [{"id": "creek-0", "file_name": "../a.jpg", "location": "creek"}]},
        "traps.json lists '../a.jpg', which is not below its folder",
    ),
    "an absolute path": (
        {"images": [{"id": "creek-0", "file_name": "/tmp/a.jpg", "location": "creek"}]},
        "traps.json lists '/tmp/a.jpg', which is not below its folder",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_file_that_lists_no_camera_traps_is_one_line(case: str, tmp_path: Path) -> None:
    file = traps(tmp_path / "own")
    change, message = WRONG[case]
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(DataError, match=message) as error:
        load(file)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [b"[1, 2]", b"hello", b"\xff\x00", b"", b"[" * 10**5])
def test_json_is_not_taken_for_a_table(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_bytes(content)
    check_data(str(tmp_path / "t.json"), DataSettings())  # its columns are not looked at
    with pytest.raises(DataError, match="not a file of COCO Camera Traps") as error:
        load(tmp_path / "t.json")
    assert ("'images' is missing" in str(error.value)) == (content == b"[1, 2]")


def test_a_model_takes_camera_traps(tmp_path: Path) -> None:
    file = traps(tmp_path / "own")
    put(
        tmp_path / "own" / "images", *(f"{p}/{n}.jpg" for p in ("creek", "ridge") for n in range(6))
    )
    (labelled,) = SampleRequest(str(file), labelled=True).read(ImageForm(8), 0)
    assert Counter(labelled.domains) == {"creek": 6, "ridge": 5}
    assert set(labelled.labels or ()) == {"deer", "fox"}
    assert "left out 1 image of two categories" in labelled.notes
    (new,) = SampleRequest(str(file), domain="night").read(ImageForm(8), 0)
    assert (len(new), new.labels) == (12, None)  # one without a file
    assert new.domains is not None
    assert set(new.domains) == {"0", "1"}
    content = json.loads(file.read_text())
    content["images"] = [{"id": n, "file_name": f"creek/{n}.jpg"} for n in range(3)]
    file.write_text(json.dumps(content))
    (placeless,) = SampleRequest(str(file)).read(ImageForm(8), 0)
    assert placeless.domains == ["none"] * 3
    with pytest.raises(
        DataError, match=r"traps.json lists images, but the model takes arrays of shape \[n, 5\]"
    ):
        SampleRequest(str(file)).read(TensorForm((5,)), 0)


def test_waterbirds_as_it_comes(tmp_path: Path) -> None:
    rows = [f"{n},b/{n}.jpg,{n % 2},0,{n // 2 % 2},x.jpg" for n in range(8)]
    head = "img_id,img_filename,y,split,place,place_filename"
    (tmp_path / "metadata.csv").write_text("\n".join([head, *rows]))
    put(tmp_path, *(f"b/{n}.jpg" for n in range(8)))
    dataset = load(tmp_path / "metadata.csv", image="img_filename", label="y", domain="place")
    assert {d.name: d.y.tolist() for d in dataset.domains} == {"0": [0, 1, 0, 1], "1": [0, 1, 0, 1]}


def test_celeba_as_it_comes(tmp_path: Path) -> None:
    """The images are in a folder beside the list, which does not name it."""
    signs = [-1, 1]
    rows = [f"{n:06d}.jpg,{signs[n % 2]},{signs[n // 2 % 2]}" for n in range(8)]
    (tmp_path / "list_attr_celeba.csv").write_text("\n".join(["image_id,Blond_Hair,Male", *rows]))
    put(tmp_path / "img_align_celeba", *(f"{n:06d}.jpg" for n in range(8)))
    dataset = load(
        tmp_path / "list_attr_celeba.csv", image="image_id", label="Blond_Hair", domain="Male"
    )
    assert dataset.classes == ("-1", "1")
    assert [len(domain) for domain in dataset.domains] == [4, 4]
