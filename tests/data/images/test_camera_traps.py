"""Lists of images as their publishers write them: camera traps, Waterbirds, CelebA."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from shiftproof import load
from shiftproof.core.errors import DataError


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
