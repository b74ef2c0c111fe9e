"""A user's folder of images: the right labels, or one clear line."""

import pytest
from _internals import DataError, ImageView, find_images
from image_data import load_images
from PIL import Image


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "birds"
    for domain in ("day", "night"):
        for label in ("owl", "tit"):
            for n in range(2):
                put(folder, f"{domain}/{label}/{n}.png")
    return folder


def put(folder, place, colour=(1, 2, 3)):
    path = folder / place
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix in (".txt", ".db"):
        path.write_text("words")
    else:
        Image.new("RGB", (12, 12), colour).save(path)
    return path


def test_folders_are_domains_and_classes(root):
    samples, notes = find_images(root)
    assert notes == []
    assert [(s.domain, s.label, s.path.name) for s in samples] == [
        (domain, label, f"{n}.png")
        for domain in ("day", "night")
        for label in ("owl", "tit")
        for n in range(2)
    ]
    dataset = load_images(root, ImageView(image_size=8))
    assert dataset.name == "birds"
    assert dataset.domain_names == ("day", "night")
    assert dataset.classes == ("owl", "tit")


@pytest.mark.parametrize("name", ["a.JPG", "a.jpeg", "a.WebP", "a.tif", "a.bmp", "a.gif"])
def test_any_usual_kind_of_image_counts(root, name):
    put(root, f"day/owl/{name}")
    assert len(find_images(root)[0]) == 9


def test_hidden_files_do_not_count_and_files_of_other_kinds_are_noted(root):
    for place in (".hidden/owl/1.png", "day/.cache/1.png", "day/owl/.x.png", "__MACOSX/a/1.png"):
        put(root, place)
    assert find_images(root)[1] == []
    put(root, "day/owl/notes.txt")
    put(root, "day/Thumbs.db")
    samples, notes = find_images(root)
    assert len(samples) == 8
    assert notes == ["left out 2 files of other kinds (1 .db, 1 .txt)"]


def test_empty_folders_are_noted(root):
    (root / "dusk").mkdir()
    (root / "day" / "crow").mkdir()
    assert find_images(root)[1] == [
        "left out folders without images: 'dusk'",
        "class folders without images: 'day/crow'",
    ]


def test_classes_spelt_almost_alike_are_noted(root):
    put(root, "night/Owl/1.png")
    assert find_images(root)[1] == [
        "classes 'Owl', 'owl' differ in case, spaces or punctuation only: possible duplicates"
    ]


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("1.png", "holds 1 image outside of a class folder ('1.png')"),
        ("day/1.png", "holds 1 image outside of a class folder ('day/1.png')"),
        ("day/owl/more/1.png", "holds day/owl/more/1.png, one level too deep"),
        ("day/owl/more/yet/1.png", "holds day/owl/more/yet/1.png, one level too deep"),
    ],
)
def test_an_image_that_would_get_a_wrong_label_is_an_error(root, place, says):
    put(root, place)
    with pytest.raises(DataError) as caught:
        find_images(root)
    assert says in str(caught.value)
    assert "DIR/domain/class/*.jpg" in str(caught.value)


def test_the_folder_above_the_right_one_is_an_error_that_names_the_right_one(root):
    with pytest.raises(DataError, match=r"one level too deep.*try .*/birds$"):
        find_images(root.parent)


@pytest.mark.parametrize("kind", ["nothing", "a file", "empty", "text alone"])
def test_what_is_no_image_folder(tmp_path, kind):
    place = tmp_path / "place"
    if kind == "a file":
        place.write_text("x")
    elif kind != "nothing":
        place.mkdir()
    if kind == "text alone":
        put(place, "day/owl/notes.txt")
    with pytest.raises(DataError, match=r"no such folder|holds no images; the layout must"):
        find_images(place)
