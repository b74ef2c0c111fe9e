import io
import json
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from _internals import (
    EXAMPLES,
    ImageCheck,
    ImageRecord,
    LabelledImage,
    check_images,
    data_near_identical as near,
    decode,
    near_identical,
    thumbnail,
)
from PIL import Image, ImageDraw, ImageEnhance

REAL = Path(__file__).parents[4] / "shared/data/pacs-sample"


def thumb(seed: int) -> bytes:
    return np.random.default_rng(seed).integers(0, 256, 576, np.uint8).tobytes()


def image(
    path: str, content: int = 0, error: str = "", thumbnail: bytes | None = None
) -> LabelledImage:
    """An image at ``domain/label/name`` whose bytes and picture are known by a number."""
    domain, label, _ = path.split("/")
    sha256 = f"{content:064x}"
    if error:
        return LabelledImage(ImageRecord(Path(path), sha256, error=error), domain, label)
    pixels = thumb(content) if thumbnail is None else thumbnail
    return LabelledImage(ImageRecord(Path(path), sha256, 9, 9, pixels), domain, label)


def balanced(domains: str = "ab", labels: str = "xy", each: int = 5) -> list[LabelledImage]:
    paths = [f"{d}/{y}/{n}.png" for d in domains for y in labels for n in range(each)]
    return [image(path, 1000 + number) for number, path in enumerate(paths)]


def said(examination: ImageCheck) -> list[tuple[str, str]]:
    return [(finding.severity, finding.what) for finding in examination.findings()]


def test_a_sound_set_has_no_findings() -> None:
    examination = check_images(balanced(), {"a": 10, "b": {"x": 5, "y": 5}})
    assert examination.findings() == []
    assert examination.sound
    assert examination.counts == {"a": {"x": 5, "y": 5}, "b": {"x": 5, "y": 5}}


# --- counts -----------------------------------------------------------------------------------


def test_images_that_are_missing_and_too_many() -> None:
    expected = {"a": {"x": 7, "y": 5, "z": 2}, "b": 9, "c": 4}
    missing, surplus = check_images(balanced("abd"), expected).findings()
    assert missing.severity == "error"
    assert missing.what == "8 of 27 images are missing."
    assert missing.where == ["a/x: 5 of 7", "a/z: 0 of 2", "c: 0 of 4"]
    assert surplus.severity == "warning"
    assert surplus.what == "11 images more than expected."
    assert surplus.where == ["b: 10 instead of 9", "d: 10 instead of 0"]


def test_an_unreadable_file_is_there_all_the_same() -> None:
    images = [*balanced(), image("a/x/bad.png", 1, error="an empty file")]
    examination = check_images(images, {"a": 11, "b": 10})
    (finding,) = examination.findings()
    assert (finding.severity, finding.what) == ("error", "1 file cannot be read as an image.")
    assert finding.where == ["a/x/bad.png: an empty file"]
    assert not examination.sound


def test_unreadable_files_are_not_copies_of_each_other() -> None:
    bad = [image(f"a/x/{n}.png", 1, error="an empty file") for n in range(3)]
    examination = check_images([*balanced(), *bad])
    assert examination.copies == ()
    assert len(examination.unreadable) == 3


def test_only_the_first_few_are_shown_and_all_are_counted() -> None:
    bad = [image(f"a/x/bad{n}.png", n, error="text") for n in range(1234)]
    (finding,) = check_images([*balanced(), *bad]).findings()
    assert finding.what == "1,234 files cannot be read as an image."
    assert len(finding.where) == EXAMPLES


# --- classes ----------------------------------------------------------------------------------


def test_a_class_missing_in_a_domain() -> None:
    images = [i for i in balanced("ab", "xyz") if (i.domain, i.label) != ("b", "z")]
    (finding,) = check_images(images).findings()
    assert (finding.severity, finding.where) == ("warning", ["b: no z"])
    assert finding.what == "1 domain without images of some classes."


def test_a_class_whose_images_are_all_unreadable_is_missing() -> None:
    images = [i for i in balanced("ab", "xyz") if (i.domain, i.label) != ("b", "z")]
    images.append(image("b/z/0.png", error="text"))
    assert ["b: no z"] in [finding.where for finding in check_images(images).findings()]


def test_a_domain_of_one_class() -> None:
    images = [i for i in balanced("abc") if i.domain != "c" or i.label == "y"]
    (finding,) = check_images(images).findings()
    assert (finding.severity, finding.where) == ("warning", ["c: y"])
    assert finding.what.startswith("1 domain with images of one class only")


def test_a_set_of_one_class_is_not_sound() -> None:
    examination = check_images(balanced("ab", "x"))
    assert said(examination) == [("error", "All images have the same class.")]


@pytest.mark.parametrize(("n", "reported"), [(4, True), (5, False)])
def test_classes_of_few_images(n: int, reported: bool) -> None:
    images = [i for i in balanced("ab", "xyz") if (i.domain, i.label) != ("b", "x")]
    images += [image(f"b/x/{k}.png", 77 + k) for k in range(n)]
    wheres = [finding.where for finding in check_images(images).findings()]
    assert wheres == ([["b/x: 4"]] if reported else [])


def test_a_domain_without_a_readable_image() -> None:
    images = [*balanced(), *(image(f"c/x/{n}", n, error="text") for n in range(3))]
    wanted = ("error", "1 domain without a readable image.")
    assert wanted in said(check_images(images))


def test_no_images_at_all() -> None:
    assert said(check_images([])) == [("error", "There are no images.")]
    assert said(check_images([], {"a": 3})) == [
        ("error", "3 of 3 images are missing."),
        ("error", "There are no images."),
    ]


# --- exact copies -----------------------------------------------------------------------------


def test_copies_are_told_by_what_differs_the_worst_first() -> None:
    images = [
        *balanced(),
        image("a/x/repeated1", 1), image("a/x/repeated2", 1), image("a/x/repeated3", 1),
        image("a/x/leak", 2), image("b/x/leak", 2),
        image("a/x/quarrel", 3), image("a/y/quarrel", 3),
        image("a/x/both", 4), image("b/y/both", 4),
    ]  # fmt: skip
    examination = check_images(images)
    labels, leak, repeated = examination.findings()
    assert [f.severity for f in (labels, leak, repeated)] == ["error", "error", "warning"]
    assert labels.what == "4 files are copies of 2 images, with different labels."
    assert labels.where == [
        "a/x/quarrel (a, x) = a/y/quarrel (a, y)",
        "a/x/both (a, x) = b/y/both (b, y)",
    ]
    assert leak.what.startswith("2 files are copies of 1 image, in different domains: ")
    assert leak.where == ["a/x/leak = b/x/leak"]
    assert repeated.what.startswith(
        "3 files are copies of 1 image, each in one class of one domain: "
    )
    assert repeated.where == ["a/x/repeated1 = a/x/repeated2 = a/x/repeated3"]
    assert sorted(map(len, examination.copies)) == [2, 2, 2, 3]
    assert examination.lookalikes == ()


def test_a_large_group_is_shown_by_its_different_places() -> None:
    images = [*balanced(), *(image(f"a/x/{n}.jpg", 1) for n in range(50)), image("b/x/far.jpg", 1)]
    (finding,) = check_images(images).findings()
    assert finding.where == ["a/x/0.jpg = b/x/far.jpg = a/x/1.jpg = a/x/2.jpg and 47 more"]


def test_one_file_listed_twice_is_shown_twice() -> None:
    (finding,) = check_images([*balanced(), *[image("a/x/same.jpg", 1)] * 2]).findings()
    assert finding.where == ["a/x/same.jpg = a/x/same.jpg"]


def test_a_name_that_cannot_be_printed_is_quoted() -> None:
    (finding,) = check_images([*balanced(), image("a/x/two\nlines", 1, error="text")]).findings()
    assert finding.where == [r"'a/x/two\nlines': text"]


# --- near-identical pictures ------------------------------------------------------------------


def scene(seed: int) -> Image.Image:
    """Smooth blobs of colour with edges: no two alike, and not alike in their outlines."""
    rng = np.random.default_rng(seed)
    small = Image.fromarray(rng.integers(0, 256, (7, 9, 3), np.uint8))
    picture = small.resize((180, 140), Image.Resampling.BICUBIC)
    pen = ImageDraw.Draw(picture)
    for _ in range(4):
        x, y = rng.integers(0, 140), rng.integers(0, 100)
        pen.rectangle([x, y, x + 30, y + 25], fill=tuple(rng.integers(0, 256, 3).tolist()))
    return picture


def sketch(seed: int) -> Image.Image:
    """A few dark strokes on white, in the middle of the page."""
    rng = np.random.default_rng(seed)
    picture = Image.new("RGB", (227, 227), "white")
    points = [tuple(point) for point in rng.integers(40, 187, (14, 2)).tolist()]
    ImageDraw.Draw(picture).line(points, fill="black", width=3)
    return picture


def compressed(picture: Image.Image, quality: int = 60) -> Image.Image:
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=quality)
    return decode(file.getvalue(), "copy")


def rescaled(picture: Image.Image) -> Image.Image:
    return picture.resize((picture.width * 4 // 5, picture.height * 4 // 5))


def lighter(picture: Image.Image) -> Image.Image:
    return ImageEnhance.Brightness(picture).enhance(1.05)


def darker(picture: Image.Image) -> Image.Image:
    return ImageEnhance.Brightness(picture).enhance(0.9)


COPIES: dict[str, Callable[[Image.Image], Image.Image]] = {
    "compressed": compressed,
    "rescaled": rescaled,
    "lighter": lighter,
    "darker": darker,
    "squeezed to a square": lambda picture: picture.resize((224, 224)),
    "all of it": lambda picture: compressed(lighter(rescaled(picture))),
}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("kind", [scene, sketch])
def test_a_copy_is_found_and_nothing_else(kind: Callable[[int], Image.Image], how: str) -> None:
    pictures = [kind(seed) for seed in range(40)]
    originals = [thumbnail(picture) for picture in pictures]
    assert near_identical(originals) == []
    copies = [thumbnail(COPIES[how](picture)) for picture in pictures]
    assert near_identical(originals + copies) == [(n, n + 40) for n in range(40)]


def test_what_is_alike_but_not_the_same_is_not_reported() -> None:
    """The same outline with other content, mirrored, moved, and as a negative."""
    picture = scene(0)
    inside = picture.copy()
    inside.paste(scene(1).crop((0, 0, 60, 50)), (60, 40))
    others = [
        inside,
        picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
        picture.crop((12, 8, 180, 140)),
        Image.fromarray(255 - np.asarray(picture)),
    ]
    assert near_identical([thumbnail(p) for p in (picture, *others)]) == []


def test_pictures_that_show_nothing_are_not_alike() -> None:
    pages = [bytes([255] * 576), bytes([0] * 576), bytes([255] * 575 + [240]), bytes([254] * 576)]
    assert near_identical(pages * 3) == []


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_to_compare(n: int) -> None:
    assert near_identical([thumb(1)] * n) == []


def test_two_grey_levels_do_not_break_the_tone_curve() -> None:
    stamp = np.zeros((24, 24), np.uint8)
    stamp[5:12, 3:20] = 200
    faded = np.where(stamp, 180, 30).astype(np.uint8)
    other = stamp.T.copy()
    assert near_identical([t.tobytes() for t in (stamp, faded, other)]) == [(0, 1)]


def walks(n: int, seed: int) -> list[bytes]:
    """Pictures in families: from each, copies that drift away step by step."""
    rng = np.random.default_rng(seed)
    pictures = []
    while len(pictures) < n:
        picture = rng.uniform(60, 200) + rng.normal(0, 30, 576)
        for _ in range(rng.integers(1, 12)):
            pictures.append(np.clip(picture, 0, 255).round().astype(np.uint8).tobytes())
            picture = picture + rng.normal(0, rng.uniform(0, 5), 576)
    rng.shuffle(pictures)
    return pictures[:n]


def same_by_definition(one: bytes, other: bytes) -> bool:
    a, b = (np.frombuffer(t, np.uint8).astype(float) for t in (one, other))
    if min(a.std(), b.std()) < near.FAINTEST:
        return False
    u, v = ((t - t.mean()) / np.linalg.norm(t - t.mean()) for t in (a, b))
    if np.sqrt(((u - v) ** 2).sum()) > near.REACH:
        return False
    left = []
    for source, target in ((a, b), (b, a)):
        curve = np.polynomial.Polynomial.fit(source, target, 3)
        left.append((target - curve(source)).std() / target.std())
    return max(left) <= near.UNEXPLAINED


def connected(n: int, pairs: list[tuple[int, int]]) -> list[int]:
    """The smallest number in each one's tree, by walking until nothing changes."""
    tree = list(range(n))
    while True:
        before = list(tree)
        for one, other in pairs:
            tree[one] = tree[other] = min(tree[one], tree[other])
        if tree == before:
            return tree


@pytest.mark.parametrize("seed", [0, 1])
def test_the_search_finds_what_comparing_all_finds(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(near, "_ROWS", 40)
    monkeypatch.setattr(near, "_CHUNK", 3)
    pictures = walks(150, seed)
    pairs = near_identical(pictures)
    wanted = [
        (i, j)
        for i, j in combinations(range(150), 2)
        if same_by_definition(pictures[i], pictures[j])
    ]
    assert len(wanted) > 100
    assert set(pairs) <= set(wanted) | {(j, i) for i, j in wanted}
    assert connected(150, pairs) == connected(150, wanted)
    assert len(pairs) == 150 - len(set(connected(150, wanted)))  # and not one more than needed


def test_a_crowd_of_one_picture_is_one_tree() -> None:
    rng = np.random.default_rng(6)
    base = rng.integers(60, 200, 576)
    crowd = [(base + rng.integers(-2, 3, 576)).astype(np.uint8).tobytes() for _ in range(1500)]
    pairs = near_identical(crowd)
    assert len(pairs) == 1499
    assert len(set(connected(1500, pairs))) == 1


def test_lookalikes_are_told_by_what_differs() -> None:
    def close(content: int) -> bytes:
        pixels = np.frombuffer(thumb(content), np.uint8)
        return (pixels // 2 + 40).astype(np.uint8).tobytes()

    images = [
        *balanced(),
        image("a/x/1", 1), image("a/x/1b", 11, thumbnail=close(1)),
        image("a/x/2", 2), image("b/x/2b", 12, thumbnail=close(2)),
        image("a/x/3", 3), image("a/y/3b", 13, thumbnail=close(3)),
    ]  # fmt: skip
    examination = check_images(images)
    labels, leak, alike = examination.findings()
    assert [f.severity for f in (labels, leak, alike)] == ["warning", "warning", "note"]
    assert labels.what == "Nearly identical pictures: 1 pair of files with different labels."
    assert labels.where == ["a/x/3 (a, x) ≈ a/y/3b (a, y)"]
    assert leak.where == ["a/x/2 ≈ b/x/2b"]
    assert alike.where == ["a/x/1 ≈ a/x/1b"]
    assert examination.sound


def test_a_copy_elsewhere_does_not_hide_a_lookalike_between_domains() -> None:
    """c is like b1, of its own domain, whose exact copy lies in the other."""
    pixels = (np.frombuffer(thumb(1), np.uint8) // 2 + 40).astype(np.uint8).tobytes()
    images = [image("b/x/b1", 1), image("a/x/b2", 1), image("b/x/c", 2, thumbnail=pixels)]
    (pair,) = check_images([*balanced(), *images]).lookalikes
    assert [i.record.path.name for i in pair] == ["b2", "c"]


# --- the whole --------------------------------------------------------------------------------


def everything_wrong() -> ImageCheck:
    close = (np.frombuffer(thumb(5), np.uint8) // 2 + 40).astype(np.uint8).tobytes()
    images = [
        *balanced("abc", "xyz"), image("d/x/0", 1), image("e/x/0", 2), image("e/y/0", 3),
        image("a/x/q", 4), image("b/y/q", 4), image("a/x/l", 6), image("b/x/l", 6),
        image("a/x/r", 7), image("a/x/r2", 7), image("a/x/5", 5),
        image("b/x/5", 8, thumbnail=close), image("f/x/0", 9, error="text"),
    ]  # fmt: skip
    return check_images(images, MappingProxyType({"a": MappingProxyType({"x": 99}), "b": 1}))


def test_findings_are_sentences_with_the_worst_first() -> None:
    findings = everything_wrong().findings()
    assert len(findings) == 11
    severities = [finding.severity for finding in findings]
    assert severities == sorted(severities, key=["error", "warning", "note"].index)
    for finding in findings:
        for text in (finding.what, finding.advice):
            assert text.endswith(".")
            assert text[0].isupper() or text[0].isdigit()
            assert text.isprintable()
        assert 0 < len(finding.where) <= EXAMPLES


def test_json_holds_everything() -> None:
    examination = everything_wrong()
    read = json.loads(json.dumps(examination.to_json()))
    assert read["sound"] is False
    assert read["expected"] == {"a": {"x": 99}, "b": 1}
    assert read["counts"]["d"] == {"x": 1}
    assert read["unreadable"] == [{"path": "f/x/0", "domain": "f", "label": "x", "error": "text"}]
    assert [len(group) for group in read["copies"]] == [2, 2, 2]
    assert [place["path"] for place in read["lookalikes"][0]] == ["a/x/5", "b/x/5"]
    assert [tuple(f.values()) for f in read["findings"]] == examination.findings()
    assert json.loads(json.dumps(check_images(balanced()).to_json()))["expected"] is None


@pytest.mark.skipif(not REAL.exists(), reason="needs the sample of PACS")
def test_real_photos_and_sketches_raise_no_false_alarm_and_their_copies_are_found() -> None:
    images, copies = [], []
    paths = sorted(path for path in REAL.rglob("*") if path.suffix in (".jpg", ".png"))
    for number, path in enumerate(paths):
        picture = decode(path.read_bytes(), path)
        domain, label = path.parts[-3:-1]
        images.append(image(f"{domain}/{label}/{number}", number, thumbnail=thumbnail(picture)))
        if number % 6 == 0:
            copy = thumbnail(COPIES["all of it"](picture))
            copies.append(image(f"copies/{label}/{number}", 1000 + number, thumbnail=copy))
    assert len(images) == 336
    assert check_images(images).lookalikes == ()
    found = check_images(images + copies).lookalikes
    assert all(one.record.path.name == other.record.path.name for one, other in found)
    assert len(found) >= 55 == len(copies) - 1
