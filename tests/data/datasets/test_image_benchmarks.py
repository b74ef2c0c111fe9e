"""The five published image sets: their cards, and finding them in the layouts they come in."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from pathlib import Path

import pytest
from _internals import (
    DOMAIN_NET_COUNTS,
    PACS,
    DataError,
    DomainNet,
    ImageBenchmark,
    OfficeHome,
    TerraIncognita,
    expected_counts,
    import_dataset,
    letters_of,
    library_datasets,
    shortages,
    silent,
    surplus,
)
from PIL import Image

from shiftproof import DATASETS

NAMES = ["domain-net", "office-home", "pacs", "terra-incognita", "vlcs"]


@pytest.fixture(autouse=True)
def library(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("SHIFTPROOF_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "datasets"


def picture(number: int, size: tuple[int, int] = (9, 7)) -> bytes:
    """A picture like no other."""
    out = io.BytesIO()
    colour = (number * 67 % 256, number * 31 % 256, number % 256)
    Image.new("RGB", size, colour).save(out, "PNG")
    return out.getvalue()


def put(root: Path, *places: str) -> Path:
    """Make an image at each of these places, all different."""
    for number, place in enumerate(places):
        path = root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number) + str(path).encode())
    return root


def taken(folder: Path) -> set[str]:
    """The files of an imported set."""
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.suffix != ".json"} - {
        str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_dir()
    }


# --- cards ------------------------------------------------------------------------------------


def test_they_are_kept_in_the_library_under_their_registered_names():
    assert set(library_datasets()) >= set(NAMES)
    assert all(source.name == name for name, source in library_datasets().items())
    assert all(issubclass(source, ImageBenchmark) for source in library_datasets().values())


@pytest.mark.parametrize(
    ("name", "images", "domains", "classes", "every", "regime"),
    [
        ("pacs", 9_991, 4, 7, 300, "large-image"),
        ("vlcs", 10_729, 4, 5, 300, "large-image"),
        ("office-home", 15_588, 4, 65, 300, "large-image"),
        ("terra-incognita", 24_330, 4, 10, 300, "large-image"),
        ("domain-net", 586_575, 6, 345, 1000, "huge-image"),
    ],
)
def test_a_card_has_the_numbers_of_the_protocol(name, images, domains, classes, every, regime):
    card = DATASETS.get(name).card
    assert sum(card.counts.values()) == images
    assert (len(card.counts), len(card.classes)) == (domains, classes)
    assert (card.eval_every, card.regime) == (every, regime)
    assert (card.backbone, card.input_shape) == ("resnet50", (3, 224, 224))
    # DomainBed numbers domains and classes in the order of their folders.
    assert list(card.counts) == sorted(card.counts)
    assert list(card.classes) == sorted(card.classes)
    for domain, by_class in card.class_counts.items():
        assert sum(by_class) == card.counts[domain]
        assert len(by_class) == classes
    # Known by letters and digits alone, and still told apart.
    for names in (card.counts, card.classes):
        assert len({letters_of(n) for n in names}) == len(names)
    files = [s.filename for alternatives in card.sources for s in alternatives]
    assert files
    assert len(set(files)) == len(files)


def test_the_numbers_that_are_not_certain():
    raw = sum(raw for _, raw in DOMAIN_NET_COUNTS.values())
    assert raw == 596_010  # as the paper prints it
    assert raw - sum(DomainNet.card.counts.values()) == 9_435  # lines of the published list
    assert sum(most for _, most in TerraIncognita.bounds.values()) == 24_788
    now, before = ({d: b[i] for d, b in TerraIncognita.bounds.items()} for i in (0, 1))

    def spread(counts):
        return {domain: (n - 9, *[1] * 9) for domain, n in counts.items()}

    for counts in (now, before):
        assert shortages(TerraIncognita, spread(counts)) == []
        assert surplus(TerraIncognita, spread(counts)) == []
        assert expected_counts(TerraIncognita, spread(counts)) == counts
    fewer, more = {**now, "location_46": 5_882}, {**before, "location_38": 9_768}
    assert shortages(TerraIncognita, spread(fewer)) == ["location_46 5,882 of 5,883"]
    assert expected_counts(TerraIncognita, spread(fewer))["location_46"] == 5_883
    assert surplus(TerraIncognita, spread(more)) == ["location_38 9,768 instead of 9,736"]


def test_a_class_that_is_empty_or_short_makes_a_domain_lack():
    full = {domain: list(row) for domain, row in PACS.card.class_counts.items()}
    assert shortages(PACS, full) == []
    full["photo"][0] -= 1
    full["photo"][1] += 1  # the sum is right
    assert shortages(PACS, full) == ["photo 1,670 of 1,670, but too few of 'dog'"]
    home = {domain: [n - 64, *[1] * 64] for domain, n in OfficeHome.card.counts.items()}
    assert shortages(OfficeHome, home) == []
    home["Art"][-1], home["Art"][0] = 0, home["Art"][0] + 1
    assert shortages(OfficeHome, home) == ["Art 2,427 of 2,427, but too few of 'Webcam'"]
    home["Art"] = [0] * 65
    assert shortages(OfficeHome, home) == ["Art 0 of 2,427"]


# --- layouts ----------------------------------------------------------------------------------

ONE_EACH = [f"{d}/{c}/pic_001.png" for d in PACS.card.counts for c in PACS.card.classes]


@pytest.mark.parametrize("above", ["", "kfold/", "PACS/", "pacs/PACS/", "a/b/c/"])
def test_pacs_in_any_of_its_layouts(tmp_path, library, above):
    given = put(tmp_path / "given", *(above + place for place in ONE_EACH))
    held = import_dataset("pacs", given)
    assert taken(library / "pacs") == set(ONE_EACH)
    assert not held.complete
    assert held.counts == dict.fromkeys(PACS.card.counts, (1,) * 7)


def test_only_images_of_known_domains_and_classes_are_taken(tmp_path, library):
    given = put(
        tmp_path / "given",
        "photo/dog/1.png",
        "photo/unicorn/1.png",
        "photo/dog/.hidden.png",
        "photo/dog/deeper/1.png",
        "photo/loose.png",
        "drawing/dog/1.png",
        "__MACOSX/sketch/dog/1.png",
        "splits/photo/list.png",
    )
    (given / "photo/dog/readme.txt").write_text("no image")
    (given / "photo/dog/empty.jpg").touch()
    held = import_dataset("pacs", given)
    assert taken(library / "pacs") == {"photo/dog/1.png"}
    assert held.notes == (
        "photo: left out folders of unknown classes ('unicorn')",
        "left out 1 empty file",
    )


@pytest.mark.parametrize("spelling", ["Real World", "RealWorld", "real_world", "REAL-WORLD"])
def test_names_are_known_by_their_letters(tmp_path, library, spelling):
    given = put(tmp_path / "given", f"{spelling}/alarm clock/1.png", "art/ToothBrush/1.png")
    import_dataset("office-home", given)
    assert taken(library / "office-home") == {
        "Real World/Alarm_Clock/1.png",
        "Art/ToothBrush/1.png",
    }


@pytest.mark.parametrize(
    ("places", "words"),
    [
        (["Real World/Bed/1.png", "RealWorld/Bed/1.png"], "two folders for the domain Real World"),
        (["a/Art/Bed/1.png", "b/Art/Bed/1.png"], "two folders for the domain Art"),
        (["Art/TV/1.png", "Art/tv/1.png"], "two folders for the class TV of Art"),
        (["Art/Car/1.png"], "holds no image of office-home; looked for: folders DOMAIN/CLASS"),
    ],
)
def test_nothing_ambiguous_is_taken(tmp_path, library, places, words):
    with pytest.raises(DataError, match=words) as raised:
        import_dataset("office-home", put(tmp_path / "given", *places))
    assert "\n" not in str(raised.value)
    assert not (library / "office-home").exists()


@pytest.mark.parametrize("name", ["sviro", "spawrious-o2o-easy", "wilds-camelyon", "usps"])
def test_what_was_looked_for_explains_only_words_of_the_layout(tmp_path, library, name):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=f"holds no image of {name}; looked for: ") as raised:
        import_dataset(name, tmp_path / "empty")
    assert "DOMAIN" not in str(raised.value)
    assert "CLASS" not in str(raised.value)


def test_one_domain_alone_and_its_own_folder_named(tmp_path, library):
    given = put(tmp_path, "sketch/horse/1.png", "sketch/house/1.png")
    import_dataset("pacs", given / "sketch")
    assert taken(library / "pacs") == {"sketch/horse/1.png", "sketch/house/1.png"}


def test_vlcs_from_its_tar(tmp_path, library):
    given = put(tmp_path / "given", "VLCS/SUN09/car/1.jpg", "VLCS/VOC2007/dog/2.jpg")
    with tarfile.open(tmp_path / "VLCS.tar.gz", "w:gz") as tar:
        tar.add(given / "VLCS", "VLCS")
    held = import_dataset("vlcs", tmp_path / "VLCS.tar.gz")
    assert taken(library / "vlcs") == {"SUN09/car/1.jpg", "VOC2007/dog/2.jpg"}
    assert held.counts["SUN09"] == (0, 1, 0, 0, 0)


def zipped(path: Path, root: Path, *tops: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as file:
        for top in tops:
            for inner in sorted((root / top).rglob("*.*")):
                file.write(inner, inner.relative_to(root))


def test_a_zip_beside_what_came_out_of_it_is_not_unpacked_again(tmp_path, library):
    given = put(tmp_path / "given", *(f"kfold/{place}" for place in ONE_EACH))
    zipped(given / "PACS.zip", given, "kfold")
    import_dataset("pacs", given)
    assert taken(library / "pacs") == set(ONE_EACH)


# --- DomainNet --------------------------------------------------------------------------------


def test_domain_net_from_a_folder_of_zips_some_of_them_unpacked(tmp_path, library):
    made = put(tmp_path / "made", *(f"{d}/zebra/{d}_1.png" for d in DomainNet.card.counts))
    given = tmp_path / "given"
    for domain in DomainNet.card.counts:
        zipped(given / f"{domain}.zip", made, domain)
    put(given, "real/zebra/unpacked.png")
    held = import_dataset("domain-net", given)
    rest = {f"{d}/zebra/{d}_1.png" for d in DomainNet.card.counts if d != "real"}
    assert taken(library / "domain-net") == {*rest, "real/zebra/unpacked.png"}
    assert held.images == 6


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4, 5), (5, 3, 4, 1, 2, 0)])
def test_of_duplicates_in_a_class_the_last_by_name_is_kept(tmp_path, library, order):
    same, other = b"one", b"two"  # of one size, so that contents are compared
    files = [
        ("clipart/couch/clipart_081_000001.png", same),
        ("clipart/couch/clipart_081_000233.png", same),
        ("clipart/couch/clipart_081_000002.png", same),
        ("clipart/couch/clipart_081_000003.png", other),
        ("clipart/bed/clipart_029_000001.png", same),  # which of the two is right is not known
        ("sketch/couch/sketch_081_000001.png", same),
    ]
    for position in order:
        place, content = files[position]
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_bytes(content)
    held = import_dataset("domain-net", tmp_path)
    assert taken(library / "domain-net") == {files[i][0] for i in (1, 3, 4, 5)}
    assert held.notes == ("left out 2 duplicates (same bytes, same class)",)


# --- TerraIncognita ---------------------------------------------------------------------------


def annotate(file: Path, rows: list[tuple[str, object, str]]) -> None:
    """Write (file name, location, class) as COCO annotations."""
    labels = sorted({label for _, _, label in rows})
    images = {name: location for name, location, _ in rows}
    file.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "categories": [{"id": 10 + i, "name": label} for i, label in enumerate(labels)],
        "images": [
            {"id": f"id-{name}", "file_name": name, "location": location}
            for name, location in images.items()
        ],
        "annotations": [
            {"image_id": f"id-{name}", "category_id": 10 + labels.index(label)}
            for name, _, label in rows
        ],
    }
    file.write_text(json.dumps(content))


ROWS: list[tuple[str, object, str]] = [
    ("a.jpg", 38, "bird"),
    ("a.jpg", 38, "bird"),  # two birds are one label
    ("b.jpg", 38, "cat"),
    ("b.jpg", 38, "dog"),  # a cat and a dog are two
    ("b.jpg", 38, "car"),
    ("c.jpg", 100, "empty"),
    ("d.jpg", 99, "bird"),  # another location
    ("e.jpg", 43, "deer"),  # another class
    ("f.jpg", 46, "coyote"),  # not there
]
WANTED = {
    "location_38/bird/a.jpg",
    "location_38/cat/b.jpg",
    "location_38/dog/b.jpg",
    "location_100/empty/c.jpg",
}


def terra(root: Path) -> Path:
    put(root, *(f"eccv_18_all_images_sm/{name}.jpg" for name in "abcde"))
    for part, rows in (("train", ROWS[:5]), ("cis_val", ROWS[5:7]), ("trans_test", ROWS[7:])):
        annotate(root / f"eccv_18_annotation_files/{part}_annotations.json", rows)
    return root


def test_terra_incognita_from_images_and_annotations(tmp_path, library):
    held = import_dataset("terra-incognita", terra(tmp_path / "given"))
    assert taken(library / "terra-incognita") == WANTED
    assert held.notes == (
        "annotated images that are missing: 1 of 4",
        "images in two classes, because they show both: 1",
    )


def test_terra_incognita_from_its_archives(tmp_path, library):
    made = terra(tmp_path / "made")
    given = tmp_path / "given"
    given.mkdir()
    for archive, top in (
        ("eccv_18_all_images_sm.tar.gz", "eccv_18_all_images_sm"),
        ("eccv_18_annotations.tar.gz", "eccv_18_annotation_files"),
    ):
        with tarfile.open(given / archive, "w:gz") as tar:
            tar.add(made / top, top)
    import_dataset("terra-incognita", given)
    assert taken(library / "terra-incognita") == WANTED


def test_terra_incognita_from_the_annotations_of_the_whole_collection(tmp_path, library):
    put(tmp_path, *(f"images/{name}.jpg" for name in "abcde"))
    rows = [(name, str(location), label) for name, location, label in ROWS]
    annotate(tmp_path / "caltech_images_20210113.json", rows)
    import_dataset("terra-incognita", tmp_path)
    assert taken(library / "terra-incognita") == WANTED


def test_terra_incognita_prepared_by_others(tmp_path, library):
    given = put(tmp_path / "terra_incognita", "location_38/bird/a.jpg", "location_99/bird/a.jpg")
    import_dataset("terra-incognita", given)
    assert taken(library / "terra-incognita") == {"location_38/bird/a.jpg"}


def test_annotations_cannot_name_a_file_elsewhere(tmp_path, library):
    (tmp_path / "secret.jpg").write_bytes(picture(1))
    given = put(tmp_path / "given", "eccv_18_all_images_sm/a.jpg")
    annotate(
        given / "train_annotations.json",
        [("../secret.jpg", 38, "bird"), ("/etc/passwd", 38, "cat"), ("x/a.jpg", 38, "dog")],
    )
    import_dataset("terra-incognita", given)
    assert taken(library / "terra-incognita") == {"location_38/dog/a.jpg"}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[1, 2]", "is not a file of COCO Camera Traps"),
        ("{", "is not a file of COCO Camera Traps"),
        ('{"images": [], "annotations": [{}], "categories": []}', "is not a file of COCO"),
        ('{"images": [], "annotations": [], "categories": []}', "holds no image"),
    ],
)
def test_damaged_annotations_are_one_line(tmp_path, content, words):
    put(tmp_path, "images/a.jpg")
    (tmp_path / "train_annotations.json").write_text(content)
    with pytest.raises(DataError, match=words) as raised:
        import_dataset("terra-incognita", tmp_path)
    assert "\n" not in str(raised.value)


def test_two_images_of_one_name_are_an_error(tmp_path):
    given = put(terra(tmp_path / "given"), "eccv_18_all_images_sm/again/a.jpg")
    with pytest.raises(DataError, match="two images have the same name"):
        import_dataset("terra-incognita", given)


# --- loading ----------------------------------------------------------------------------------


def test_a_set_that_is_not_here_says_how_to_get_it():
    with pytest.raises(DataError) as raised:
        PACS().load(0)
    assert str(raised.value) == (
        "pacs is not on this machine; run `shiftproof data pull pacs` to download it, or"
        " `shiftproof data import pacs PATH` to use your own copy"
    )


def test_loading_an_incomplete_set_says_so(tmp_path):
    places = [
        f"{d}/{c}/{i}.png" for d in ("photo", "sketch") for c in ("house", "dog") for i in "ab"
    ]
    import_dataset("pacs", put(tmp_path / "given", *places))
    steps = []
    dataset = PACS(image_size=8).load(0, lambda *step: steps.append(step))
    assert dataset.domain_names == ("photo", "sketch")
    assert dataset.classes == PACS.card.classes
    assert [d.y.tolist() for d in dataset.domains] == [[0, 0, 5, 5]] * 2
    assert dataset.input_shape == (3, 8, 8)
    assert (dataset.regime, dataset.backbone, dataset.eval_every) == (
        "large-image",
        "resnet50",
        300,
    )
    assert dataset.notes[0] == (
        "pacs is incomplete: 8 of 9,991 images (art_painting 0 of 2,048; cartoon 0 of 2,344;"
        " photo 4 of 1,670; sketch 4 of 3,929);"
        " run `shiftproof data pull pacs` or `shiftproof data import pacs PATH` to complete it"
    )
    assert any("has no sample of 5 of 7 classes" in note for note in dataset.notes)
    assert steps[-1][1:] == (8, 8)


def test_the_regime_is_the_cards(tmp_path):
    import_dataset("domain-net", put(tmp_path, "real/zebra/1.png", "sketch/zebra/1.png"))
    dataset = DomainNet(image_size=8).load(0)
    assert (dataset.regime, dataset.eval_every) == ("huge-image", 1000)


def test_a_foreign_folder_in_the_library_is_an_error(tmp_path, library):
    import_dataset("pacs", put(tmp_path / "given", "photo/dog/1.png"))
    put(library / "pacs", "photo/unicorn/1.png")
    with pytest.raises(DataError, match=r"unicorn/1.png is not in a domain and class of pacs"):
        PACS().load(0)


def test_the_sample_of_the_real_set():
    sample = Path(__file__).parents[4] / "shared/data/pacs-sample"
    if not sample.is_dir():
        pytest.skip("the sample is not on this machine")
    found = PACS.collect([sample], silent)
    assert len(found.samples) == 336
    assert found.notes == []
    assert {(s.domain, s.label) for s in found.samples} == {
        (domain, label) for domain in PACS.card.counts for label in PACS.card.classes
    }
