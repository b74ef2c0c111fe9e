import numpy as np
import pytest
from _internals import DataError, ImageView, InvalidValue, UnknownName
from image_data import load_images
from PIL import Image

from shiftproof import load

VIEW = ImageView(image_size=8)


@pytest.fixture
def write(tmp_path):
    for n in range(6):
        Image.new("RGB", (9, 9), (n * 40, 0, 0)).save(tmp_path / f"{n}.png")

    def write_rows(*rows, header="path,label,domain"):
        path = tmp_path / "list.csv"
        path.write_text("\n".join([header, *rows]) + "\n")
        return path

    return write_rows


def rows(folder=""):
    return [f"{folder}{n}.png,{'ab'[n % 2]},{'xyz'[n // 2]}" for n in range(6)]


@pytest.mark.parametrize("absolute", [False, True])
def test_each_row_is_an_image_with_its_label_and_domain(write, tmp_path, absolute):
    shuffled = np.random.default_rng(0).permutation(rows(f"{tmp_path}/" if absolute else ""))
    dataset = load_images(write(*shuffled), VIEW, image="path")
    assert dataset.name == "list"
    assert dataset.domain_names == ("x", "y", "z")
    for position, domain in enumerate(dataset.domains):
        red = domain.stored(np.arange(2))[:, 0, 0, 0].tolist()
        found = dict(zip(red, domain.y.tolist(), strict=True))
        assert found == {80 * position: 0, 80 * position + 40: 1}


def test_columns_may_have_other_names(write):
    manifest = write(*rows(), header="file,kind,site")
    load_images(manifest, VIEW, image="file", label="kind", domain="site")
    with pytest.raises(DataError, match="no column named 'label'"):
        load_images(manifest, VIEW, image="file", domain="site")
    with pytest.raises(UnknownName, match=r"'fle'; did you mean 'file'"):
        load_images(manifest, VIEW, image="fle", label="kind", domain="site")


def test_rows_that_cannot_be_used_are_noted(write):
    listed = [*rows(), ",a,x", "gone.png,a,x", "0.png,,x"]
    dataset = load_images(write(*listed), VIEW, image="path")
    assert [len(domain) for domain in dataset.domains] == [2, 2, 2]
    notes = " | ".join(dataset.notes)
    assert "1 row without a label" in notes
    assert "left out 1 row without a path in column 'path', the first in row 7" in notes
    assert "domain 'x': left out 1 image that cannot be read" in notes


def test_paths_that_all_lead_nowhere_are_one_mistake(write):
    with pytest.raises(DataError, match=r"none of the 6 files .* paths start at the manifest's"):
        load_images(write(*rows("elsewhere/")), VIEW, image="path")


def test_columns_that_say_nothing(write):
    with pytest.raises(DataError, match=r"no row of list.csv has a path in column 'path'"):
        load_images(
            write(*(f",{'ab'[n % 2]},{'xyz'[n // 2]}" for n in range(6))), VIEW, image="path"
        )
    with pytest.raises(InvalidValue, match="`label` and `domain` name the same column, 'label'"):
        load_images(write(*rows()), VIEW, image="path", domain="label")
    for name in ("drop", "categorical"):
        with pytest.raises(InvalidValue, match=f"`{name}` is for tables"):
            load(write(*rows()), image="path", **{name: ["label"]})


def test_a_file_listed_twice_is_noted_and_under_two_labels_an_error(write):
    dataset = load_images(write(*rows(), rows()[0]), VIEW, image="path")
    assert (
        "1 repeated file in list.csv: held-out parts may contain copies of training images"
        in dataset.notes
    )
    with pytest.raises(DataError, match=r"gives .*0.png the labels a and b; keep one of them"):
        load_images(write(*rows(), "0.png,b,x"), VIEW, image="path")
