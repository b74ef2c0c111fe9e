"""200 damaged inputs, each a clear error or a reported skip: never a traceback or a wrong label.

Every sample says its own label in its content (a picture by its colour, a row by its number), so
that whatever is loaded can be checked against the label it was given.
"""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from _internals import PACS, DataRequest, import_dataset
from PIL import Image

from shiftproof import DomainDataset, ShiftproofError

CLASSES = {"blue": (20, 20, 220), "green": (20, 220, 20), "red": (220, 20, 20)}
DOMAINS = ("day", "dusk", "night")
Rng = np.random.Generator
T = TypeVar("T")


def load(data: Path, **columns: object) -> DomainDataset:
    options = {"image_size": "8"} if data.is_dir() or columns.get("image") else {}
    return DataRequest(str(data), options=options, **columns).load(seed=0)  # type: ignore[arg-type]


def picture(colour: tuple[int, int, int], rng: Rng, kind: str) -> bytes:
    noise = rng.integers(-15, 16, size=(18, 22, 3))
    pixels = (np.array(colour) + noise).clip(0, 255).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind, **({"lossless": True} if kind == "WEBP" else {}))
    return out.getvalue()


def paint(root: Path, rng: Rng, classes: dict[str, tuple[int, int, int]] = CLASSES) -> list[Path]:
    """Write three domains of pictures in three formats, each of its class's colour."""
    paths = []
    for domain in DOMAINS:
        for label, colour in classes.items():
            for n, kind in enumerate(("PNG", "JPEG", "WEBP")):
                path = root / domain / label / f"{n}.{kind.lower()}"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(picture(colour, rng, kind))
                paths.append(path)
    return paths


def wrong_labels(dataset: DomainDataset) -> list[str]:
    """Return the samples whose colour is not that of the label they were given."""
    wrong = []
    for domain in dataset.domains:
        pixels = domain.stored(np.arange(len(domain))).float().mean((2, 3))
        for mean, label in zip(pixels, domain.y.tolist(), strict=True):
            name = dataset.classes[label]
            nearest = ("red", "green", "blue")[int(mean.argmax())]
            if nearest != name.lower().strip():
                wrong.append(f"{domain.name}: {nearest} as {name}")
    return wrong


def attempt(action: Callable[[], T]) -> T | None:
    """Return what the action does, or None if it is refused in one line; all else is a failure."""
    try:
        return action()
    except ShiftproofError as error:
        if len(str(error)) < 20 or not str(error).isprintable():
            pytest.fail(f"not a clear line: {error!r}")
        return None


# --- 90 image folders -------------------------------------------------------------------------


def cut_short(paths: list[Path], rng: Rng) -> None:
    for path in rng.choice(np.array(paths, dtype=object), 3):
        data = path.read_bytes()
        path.write_bytes(data[: int(rng.integers(len(data)))])


def wrong_extension(paths: list[Path], rng: Rng) -> None:
    suffixes = [".jpg", ".png", ".gif", ".JPEG", ".tiff", ".txt", ".bmp", "", ".webp"]
    for path in paths:
        path.rename(path.with_name(f"{path.stem}-{path.suffix[1:]}{rng.choice(suffixes)}"))


def flipped_bytes(paths: list[Path], rng: Rng) -> None:
    for path in rng.choice(np.array(paths, dtype=object), 6, replace=False):
        data = bytearray(path.read_bytes())
        # The beginning, where sizes and formats are said; a changed pixel would be another picture.
        for _ in range(4):
            data[int(rng.integers(min(len(data), 40)))] = int(rng.integers(256))
        path.write_bytes(bytes(data))


def junk(paths: list[Path], rng: Rng) -> None:
    for path in rng.choice(np.array(paths, dtype=object), 5, replace=False):
        path.write_bytes(rng.bytes(int(rng.integers(2000))))


def empty_class(paths: list[Path], rng: Rng) -> None:
    folder = paths[int(rng.integers(len(paths)))].parent
    for path in folder.iterdir():
        path.unlink()
    if rng.random() < 0.5:
        folder.rmdir()


def strange_neighbours(paths: list[Path], rng: Rng) -> None:
    folder = paths[int(rng.integers(len(paths)))].parent
    place = [folder, folder.parent, folder.parent.parent][int(rng.integers(3))]
    kind = int(rng.integers(8))
    if kind == 0:
        os.mkfifo(place / "pipe.png")
    elif kind == 1:
        (place / "loop.png").symlink_to(place / "loop.png")
    elif kind == 2:
        (place / "circle").symlink_to(place, target_is_directory=True)
    elif kind == 3:
        (place / "dangling.jpg").symlink_to("/nowhere/at/all.jpg")
    elif kind == 4:
        (place / "folder.png").mkdir()
    elif kind == 5:
        (place / ("ü" * 100 + ".png")).write_bytes(b"")
    elif kind == 6:
        shutil.copy(paths[0], folder.parent / "stray.png")  # of no class
    else:
        (place / "odd\udcff.png").write_bytes(b"\x89PNG")


def mixed_case(paths: list[Path], rng: Rng) -> None:
    folder = paths[int(rng.integers(len(paths)))].parent
    folder.rename(folder.with_name(folder.name.upper()))


def too_deep(paths: list[Path], rng: Rng) -> None:
    path = paths[int(rng.integers(len(paths)))]
    (path.parent / "more").mkdir()
    path.rename(path.parent / "more" / path.name)


def lone_domain(paths: list[Path], rng: Rng) -> None:
    for path in paths:
        if path.parent.parent.name != DOMAINS[int(rng.integers(3))]:
            path.unlink(missing_ok=True)


FOLDER_DAMAGE: list[Callable[[list[Path], Rng], None]] = [
    cut_short, wrong_extension, flipped_bytes, junk, empty_class,
    strange_neighbours, mixed_case, too_deep, lone_domain,
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::Warning")  # Pillow's, as on the command line
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("damage", FOLDER_DAMAGE, ids=lambda damage: damage.__name__)
def test_a_damaged_image_folder(damage, seed, tmp_path):
    rng = np.random.default_rng(seed)
    paths = paint(tmp_path / "set", rng)
    damage(paths, rng)
    present = sum(path.is_file() for path in (tmp_path / "set").rglob("*"))
    dataset = attempt(lambda: load(tmp_path / "set"))
    if dataset is None:
        return
    assert wrong_labels(dataset) == []
    kept = sum(map(len, dataset.domains))
    # Whatever is missing is accounted for in the notes.
    assert kept == present or dataset.notes, (kept, present)


# --- 70 tables --------------------------------------------------------------------------------


def good_rows() -> list[list[str]]:
    """Rows whose number says their label: 10 for a, 20 for b, 30 for c."""
    return [
        [domain, f"{10 * (1 + 'abc'.index(label))}.5", "text", label]
        for domain in DOMAINS
        for label in "abc"
        for _ in range(4)
    ]


def damage_table(kind: int, rng: Rng) -> bytes:
    header, rows = ["where", "number", "words", "label"], good_rows()
    order = rng.permutation(len(rows))
    rows = [rows[k] for k in order]
    at = int(rng.integers(len(rows)))
    if kind == 0:
        rows[at] = rows[at][: int(rng.integers(4))]  # too few fields
    elif kind == 1:
        rows[at] = [*rows[at], "more"]
    elif kind == 2:
        rows[at][int(rng.integers(4))] = ""
    elif kind == 3:
        rows[at][2] = '"never closed'
    elif kind == 4:
        header[int(rng.integers(4))] = header[int(rng.integers(4))]
    elif kind == 5:
        rows[at][1] = ["inf", "many", "1e999", "0x10", "1,5"][int(rng.integers(5))]
    elif kind == 6:
        rows = rows[: int(rng.integers(2))]
    lines = [",".join(row) for row in [header, *rows]]
    data = "\n".join(lines).encode() + b"\n"
    if kind == 7:
        where = int(rng.integers(len(data)))
        data = (
            data[:where]
            + [b"\x00", b"\xff\xfe", b"\xe9", b"\r"][int(rng.integers(4))]
            + data[where:]
        )
    elif kind == 8:
        data = data[: int(rng.integers(len(data)))]
    elif kind == 9:
        data = rng.bytes(int(rng.integers(1, 3000)))
    return data


@pytest.mark.parametrize("seed", range(7))
@pytest.mark.parametrize("kind", range(10))
def test_a_damaged_table(kind, seed, tmp_path):
    data = damage_table(kind, np.random.default_rng([kind, seed]))
    path = tmp_path / "table.csv"
    path.write_bytes(data)
    dataset = attempt(lambda: load(path, label="label", domain="where"))
    if dataset is None:
        return
    names = [column.name for column in dataset.preparation.columns]
    if "number" not in names or dataset.preparation.columns[names.index("number")].kind != "number":
        assert kind in (5, 7)  # one cell that is no number makes the column text, or is noted
        return
    for domain in dataset.domains:
        numbers = domain.x[:, names.index("number")].numpy()
        labels = np.array([dataset.classes[y] for y in domain.y.tolist()])
        for label, number in zip(labels, numbers, strict=True):
            known = label in ("a", "b", "c") and not np.isnan(number)
            # A cut or a stray byte may change the last cell it falls into, but moves no other.
            if known and kind not in (7, 8):
                assert number == 10 * (1 + "abc".index(label)) + 0.5
    kept = sum(map(len, dataset.domains))
    assert kept == len(data.decode().splitlines()) - 1 or dataset.notes or kind == 7


# --- 40 archives ------------------------------------------------------------------------------


def archive_of(root: Path, seed: int, rng: Rng) -> Path:
    """Pack a sample of PACS with one thing wrong."""
    path = root / f"set.{'zip' if seed % 2 else 'tar.gz'}"
    colours = dict(zip(PACS.card.classes[:3], CLASSES.values(), strict=True))
    members = {
        f"PACS/{domain}/{label}/{n}.png": picture(colour, rng, "PNG")
        for domain in ("photo", "sketch")
        for label, colour in colours.items()
        for n in range(3)
    }
    names = list(members)
    evil = ["../../escaped.png", "/escaped.png", "PACS/../../escaped.png", "C:\\escaped.png",
            "PACS/photo/dog\\..\\..\\escaped.png", "PACS/photo/dog/\x01.png"]  # fmt: skip
    kind = seed // 2 % 10
    if kind == 0:
        members[str(rng.choice(evil))] = b"escaped"
    elif kind == 1:
        members[names[0] + "/file-in-a-file.png"] = b"x"
    elif kind == 2:
        members = {f"wrapped/again/{name}": data for name, data in members.items()}
    elif kind == 3:
        members = {name.replace("photo", "fotos"): data for name, data in members.items()}
    elif kind == 4:
        members = {}
    elif kind == 5:
        members[names[int(rng.integers(len(names)))]] = b""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as pack:
            for name, data in members.items():
                pack.writestr(name, data)
    else:
        with tarfile.open(path, "w:gz") as pack:
            for name, data in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                pack.addfile(info, io.BytesIO(data))
            if kind == 6:
                link = tarfile.TarInfo("PACS/photo/link")
                link.type, link.linkname = tarfile.SYMTYPE, "/etc"
                pack.addfile(link)
    data = path.read_bytes()
    if kind == 7:
        path.write_bytes(data[: int(rng.integers(len(data)))])
    elif kind == 8:
        spoilt = bytearray(data)
        spoilt[int(rng.integers(len(data)))] ^= 255
        path.write_bytes(bytes(spoilt))
    elif kind == 9:
        path.write_bytes(b"<!doctype html><title>Quota exceeded</title>")
    return path


@pytest.mark.parametrize("seed", range(40))
def test_a_hostile_archive(seed, tmp_path, home):
    rng = np.random.default_rng(seed)
    (tmp_path / "inner").mkdir()
    archive = archive_of(tmp_path / "inner", seed, rng)
    before = {path for path in tmp_path.rglob("*") if home not in (path, *path.parents)}
    held = attempt(lambda: import_dataset("pacs", archive))
    if held is None:
        assert not (home / "datasets" / "pacs").exists()
    else:
        assert not held.complete
        kept = [path for path in (home / "datasets" / "pacs").rglob("*") if path.is_file()]
        colours = dict(zip(PACS.card.classes[:3], CLASSES.values(), strict=True))
        for path in kept:
            if path.suffix == ".png":
                mean = np.asarray(Image.open(path)).reshape(-1, 3).mean(0)
                assert mean.argmax() == np.argmax(colours[path.parent.name])
    after = {path for path in tmp_path.rglob("*") if home not in (path, *path.parents)}
    assert after == before
    assert not Path("/escaped.png").exists()
