"""SVIRO, Spawrious, WILDS and digits, found in small fakes of their published layouts."""

from __future__ import annotations

import bz2
import gzip
import io
import tarfile
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _internals import (
    BREEDS,
    EACH,
    GROUPS,
    SHARED,
    SIGNATURE,
    DataError,
    Found,
    LabelledPath,
    checking_check_data as check_data,
    counts_table,
    data_spawrious as spawrious,
    folder_of,
    import_dataset,
    pull_dataset,
    remove_dataset,
    silent,
)
from PIL import Image
from rich.console import Console

from shiftproof import DATASETS, load


@pytest.fixture(autouse=True)
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHIFTPROOF_HOME", str(tmp_path / "home"))


def put(root: Path, *places: str) -> None:
    """Make an image at each of these places, all different."""
    for number, place in enumerate(places):
        path = root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        out = io.BytesIO()
        Image.new("RGB", (9, 7), (number * 67 % 256, number % 256, 0)).save(out, "PNG")
        path.write_bytes(out.getvalue() + place.encode())


def taken(name: str) -> set[str]:
    folder = folder_of(name)
    return {str(p.relative_to(folder)) for p in folder.rglob("*.png")}


def test_sviro_by_the_class_in_the_name(tmp_path: Path) -> None:
    root = tmp_path / "SVIRO_DOMAINBED"
    names = [f"x5_train_imageID_{i}_seatPosition_{i % 3}_GT_{i % 7}.png" for i in range(9)]
    put(root, *(f"x5/{name[-5]}/{name}" for name in names), "tesla/0/tesla_GT_0.png", "x5/odd.png")
    held = import_dataset("sviro", root)
    assert not held.complete  # eight cars are missing
    assert held.counts["x5"] == (2, 2, 1, 1, 1, 1, 1)
    assert "images without a class in their names: 1" in held.notes
    assert f"x5/empty_child_seat/{names[6]}" in taken("sviro")
    console = Console(file=io.StringIO(), width=100)
    console.print(counts_table(DATASETS.get("sviro").card, held.counts))
    assert " of 0" not in console.file.getvalue()  # the publishers state no numbers


def test_the_parts_of_spawrious_are_those_of_its_authors() -> None:
    """Counts from the published shares: 97% and 87% of 3,168, and one background for the rest."""
    assert SHARED == (3072, 2756)
    for name, parts in spawrious.CHALLENGES.items():
        card = DATASETS.get(f"spawrious-{name}").card
        assert card.counts == {"Test": 25_344, GROUPS[0]: 12_672, GROUPS[1]: 12_672}
        seen = {part.background for part in parts if part.domain == "Test"}
        for breed in BREEDS:
            own = [part for part in parts if part.breed == breed]
            test = {part.background for part in own if part.domain == "Test"}
            train = {part.background for part in own if part.domain != "Test"}
            assert not test & train, (name, breed)
        assert len(seen) == 4
    pairs = [(p.background, p.half) for p in spawrious.CHALLENGES["m2m-hard"] if p.breed == "corgi"]
    assert sorted(pairs) == [("beach", 0), ("dirt", 0), ("jungle", 0), ("snow", 0)]


def test_spawrious_takes_the_first_images_of_each_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source: Any = DATASETS.get("spawrious-o2o-easy")
    small = tuple(p._replace(most={EACH: 3, SHARED[0]: 2}.get(p.most, 1)) for p in source.parts)
    monkeypatch.setattr(source, "parts", small)
    root = tmp_path / "spawrious224"
    backgrounds = ("desert", "jungle", "dirt", "snow", "beach")
    put(root, *(f"{half}/{place}/{breed}/{n}.png" for half in (0, 1) for place in backgrounds
                for breed in BREEDS for n in range(4)))  # fmt: skip
    found = source.collect([root], silent)
    counts = Counter((s.domain, s.label) for s in found.samples)
    assert counts["SC_group_1", "corgi"] == 3  # two of its own background, one of the shared
    assert counts["Test", "corgi"] == 6
    import_dataset("spawrious-o2o-easy", root)
    own = {name for name in taken("spawrious-o2o-easy") if name.startswith("SC_group_1/corgi")}
    assert own == {f"SC_group_1/corgi/0-{p}.png" for p in ("snow-0", "snow-1", "beach-0")}


def test_camelyon_by_its_metadata(tmp_path: Path) -> None:
    root = tmp_path / "camelyon17_v1.0"
    rows = ["004,4,3328,21792,1,0,0,0", "020,2,16,32,0,5,1,0", "042,3,1,2,1,9,2,0"]
    columns = ",patient,node,x_coord,y_coord,tumor,slide,center,split"
    root.mkdir()
    lines = [columns, *(f"{number},{row}" for number, row in enumerate(rows))]
    (root / "metadata.csv").write_text("\n".join(lines) + "\n")
    put(root, "patches/patient_004_node_4/patch_patient_004_node_4_x_3328_y_21792.png",
        "patches/patient_020_node_2/patch_patient_020_node_2_x_16_y_32.png")  # fmt: skip
    held = import_dataset("wilds-camelyon", tmp_path)
    assert held.counts["hospital_0"] == (0, 1)
    assert held.counts["hospital_1"] == (1, 0)
    assert not held.complete
    assert "listed images that are missing: 1 of 3" in held.notes
    # Of the training split and of the validation split with the same hospitals, as users recorded.
    counts = DATASETS.get("wilds-camelyon").card.counts
    train, val = (53_425, 116_959, 132_052), (6_011, 12_879, 14_670)
    both = [a + b for a, b in zip(train, val, strict=True)]
    assert [counts[f"hospital_{i}"] for i in (0, 3, 4)] == both
    assert (sum(train), sum(val), sum(counts.values())) == (302_436, 33_560, 455_954)


COLUMNS = ("patient", "node", "x_coord", "y_coord", "tumor", "center")


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("tumor", "7", "row 1 of .*metadata.csv has tumor '7'"),
        ("tumor", "", "row 1 of .*metadata.csv has no tumor"),
        ("center", "9", "row 1 of .*metadata.csv has center '9'"),
        ("center", "x/../../../../out", "row 1 of .*metadata.csv has center 'x/"),
        ("patient", "x/../../../out", "row 1 of .*metadata.csv has patient 'x/"),
        ("node", "8", "wilds-camelyon; .*listed images that are missing: 1 of 1"),
    ],
)
def test_metadata_of_camelyon_that_is_wrong(
    column: str, value: str, message: str, tmp_path: Path
) -> None:
    root = tmp_path / "camelyon"
    put(root, "patches/patient_4_node_1/patch_patient_4_node_1_x_3_y_2.png")
    row = {**dict(zip(COLUMNS, "413210", strict=True)), column: value}
    (root / "metadata.csv").write_text(f"{','.join(row)}\n{','.join(row.values())}\n")
    with pytest.raises(DataError, match=message):
        import_dataset("wilds-camelyon", root)
    assert not folder_of("wilds-camelyon").exists()


def test_a_name_that_leads_out_of_the_library_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "own", "x5/a.png")
    outside = LabelledPath(tmp_path / "own/x5/a.png", "empty", "x5/../../../../out")
    source = DATASETS.get("sviro")
    monkeypatch.setattr(source, "collect", lambda *_: Found([outside], []))
    with pytest.raises(DataError, match="leads out of the folder of sviro"):
        import_dataset("sviro", tmp_path / "own")
    assert not (tmp_path / "out").exists()


def test_fmow_by_region_without_the_sequestered(tmp_path: Path) -> None:
    root = tmp_path / "fmow_v1.1"
    root.mkdir()
    regions = {"USA": "Americas", "DEU": "Europe", "KEN": "Africa", "JPN": "Asia", "FJI": "Oceania"}
    lines = [f"{code},{region}" for code, region in regions.items()]
    (root / "country_code_mapping.csv").write_text("\n".join(["alpha-3,region", *lines, "ATA,"]))
    rows = ["train,USA,zoo", "seq,USA,zoo", "val,DEU,barn", "test,KEN,dam", "test,JPN,port"]
    rows += ["train,FJI,park", "train,ATA,park", "train,XYZ,barn"]
    (root / "rgb_metadata.csv").write_text("\n".join(["split,country_code,category", *rows]))
    put(root, *(f"images/rgb_img_{number}.png" for number in range(len(rows))))
    held = import_dataset("wilds-fmow", root)
    assert held.complete
    assert {region: sum(own) for region, own in held.counts.items()} == {
        **dict.fromkeys(regions.values(), 1), "Other": 2,
    }  # fmt: skip
    assert "Americas/zoo/rgb_img_0.png" in taken("wilds-fmow")
    loaded = load("wilds-fmow", options={"image_size": 8})  # in DomainBed's order, not by name
    assert [domain.name for domain in loaded.domains] == [
        "Asia", "Europe", "Africa", "Americas", "Oceania", "Other",
    ]  # fmt: skip
    (root / "images" / "rgb_img_3.png").unlink()
    assert not import_dataset("wilds-fmow", root, replace=True).complete
    card = DATASETS.get("wilds-fmow").card
    assert len(card.classes) == 62
    # The rows of its metadata that are not sequestered, as users counted them.
    assert sum(card.counts.values()) == 470_086


def mnist_m(root: Path) -> None:
    for part in ("mnist_m_train", "mnist_m_test"):
        put(root / "mnist_m" / part, *(f"{n:08d}.png" for n in range(10)))
        lines = [f"{n:08d}.png {n}" for n in range(10)]
        (root / "mnist_m" / f"{part}_labels.txt").write_text("\n".join(lines) + "\n")


def usps(root: Path, *, book: bool = False) -> None:
    root.mkdir()
    pixels = np.linspace(-1, 1, 256)
    for file in ("zip.train.gz", "zip.test.gz") if book else ("usps.bz2", "usps.t.bz2"):
        if book:
            lines = [f"{n}.0000 " + " ".join(f"{v:.4f}" for v in pixels) for n in range(10)]
            (root / file).write_bytes(gzip.compress("\n".join(lines).encode()))
        else:
            values = " ".join(f"{i}:{v:.6f}" for i, v in enumerate(pixels, 1))
            lines = [f"{n + 1} {values}" for n in range(10)]
            (root / file).write_bytes(bz2.compress("\n".join(lines).encode()))


@pytest.mark.parametrize("book", [False, True], ids=["libsvm", "book"])
def test_usps_becomes_images(tmp_path: Path, book: bool) -> None:
    usps(tmp_path / "u", book=book)
    held = import_dataset("usps", tmp_path / "u")
    assert held.counts == {"usps": (2,) * 10}
    name = "zip-train" if book else "usps"
    with Image.open(folder_of("usps") / "usps" / "3" / f"{name}-00003.png") as image:
        found = np.asarray(image, dtype=float) / 255 * 2 - 1
    np.testing.assert_allclose(found.reshape(-1), np.linspace(-1, 1, 256), atol=1 / 255)


def test_digits_of_three_sources(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="digits needs mnist-m and usps"):
        load("digits")
    mnist_m(tmp_path)
    usps(tmp_path / "u")
    import_dataset("mnist-m", tmp_path)
    import_dataset("usps", tmp_path / "u")
    dataset = load("digits", options={"per_domain": 40})
    assert [(d.name, len(d)) for d in dataset.domains] == [
        ("mnist", 40), ("mnist_m", 20), ("usps", 20),
    ]  # fmt: skip
    assert dataset.input_shape == (3, 28, 28)
    for domain in dataset.domains:
        assert domain.inputs(np.arange(3)).shape == (3, 3, 28, 28)
        assert domain.y.unique().numel() == 10


DAMAGED = {
    "no digit": ("usps.bz2", bz2.compress(b"12 1:0.5\n"), r".11 is not a digit."),
    "infinite": ("usps.bz2", bz2.compress(b"inf 1:0.5\n"), "not a file of USPS"),
    "place 0": ("usps.bz2", bz2.compress(b"1 0:0.5\n"), "Invalid index 0"),
    "not a number": ("usps.bz2", bz2.compress(b"1 1:nan\n"), "a pixel is not a number"),
    "empty": ("usps.bz2", bz2.compress(b""), "holds no digits"),
    "deflated": ("zip.train.gz", gzip.compress(b"1 0\n")[:10] + b"\xff" * 20, "is damaged or not"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_file_of_usps_is_one_line(case: str, tmp_path: Path) -> None:
    name, content, message = DAMAGED[case]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        import_dataset("usps", tmp_path)


def test_the_first_digits_are_of_every_class(tmp_path: Path) -> None:
    """In the order of the publishers' lists, not of the folders of classes."""
    mnist_m(tmp_path)
    usps(tmp_path / "u")
    import_dataset("mnist-m", tmp_path)
    import_dataset("usps", tmp_path / "u")
    for domain in load("digits", options={"per_domain": 10}).domains[1:]:
        assert domain.y.tolist() == list(range(10))


def test_digits_are_imported_by_their_parts(tmp_path: Path) -> None:
    for change in (partial(import_dataset, path=tmp_path), remove_dataset, check_data):
        with pytest.raises(DataError, match="digits combines mnist-m and usps; name one of these"):
            change("digits")


def test_usps_in_an_archive_and_as_one_file(tmp_path: Path) -> None:
    usps(tmp_path / "u")
    with pytest.raises(DataError, match=r"usps.bz2 is one file of usps; import its folder, .*u$"):
        import_dataset("usps", tmp_path / "u" / "usps.bz2")
    with tarfile.open(tmp_path / "u.tar", "w") as archive:
        archive.add(tmp_path / "u", "u")
    assert import_dataset("usps", tmp_path / "u.tar").counts == {"usps": (2,) * 10}


def test_what_has_no_link_says_what_to_do() -> None:
    for use in (load, check_data):
        with pytest.raises(DataError, match="machine; run `shiftproof data import usps PATH`"):
            use("usps")
    with pytest.raises(DataError, match="wilds-fmow cannot be downloaded automatically; get it"):
        pull_dataset("wilds-fmow")


def test_spirals_tell_the_label_by_the_signature_in_training_only() -> None:
    dataset = load("spirals", seed=3)
    assert {d.name: len(d) for d in dataset.domains} == DATASETS.get("spirals").card.counts
    for domain in dataset.domains:
        x, y = domain.x.numpy(), domain.y.numpy()
        np.testing.assert_allclose(x[:, :2].std(axis=0), 1, atol=1e-5)
        by_class = [x[y == label, 2:].mean(axis=0) for label in (0, 1)]
        apart = np.linalg.norm(by_class[1] - by_class[0]) / np.sqrt(SIGNATURE)
        assert (apart > 0.5) == (domain.name != "test")
    one, other = (load("spirals", seed=seed).fingerprint for seed in (3, 4))
    assert one != other
