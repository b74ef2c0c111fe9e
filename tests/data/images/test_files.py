"""Image files as inputs: what is read, what is drawn, what is kept in memory."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
from _internals import (
    DataError,
    ImageFiles,
    ImageView,
    LabelledPath,
    image_dataset,
    scan,
    to_pixels,
    training_view,
)
from PIL import Image


def paint(path: Path, seed: int, size=(40, 30)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(256, size=(size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


@pytest.fixture
def paths(tmp_path):
    return [paint(tmp_path / f"{n}.png", n, (40 + n, 30 - n)) for n in range(6)]


def files(paths, **view):
    return ImageFiles(scan(paths), ImageView(**{"image_size": 16, **view}))


def test_reading_gives_the_whole_images_resized(paths):
    x = files(paths)
    read = x.read(np.array([4, 1, 4]))
    assert x.shape == (6, 3, 16, 16)
    assert read.shape == (3, 3, 16, 16)
    assert read.dtype == torch.uint8
    expected = np.asarray(Image.open(paths[4]).resize((16, 16), Image.Resampling.BILINEAR))
    assert np.array_equal(read[0].permute(1, 2, 0).numpy(), expected)
    assert torch.equal(read[0], read[2])


def test_drawing_is_a_function_of_each_seed_alone(paths):
    x = files(paths)
    drawn = x.draw(np.array([0, 3, 3]), np.array([7, 8, 9]))
    alone = x.draw(np.array([3]), np.array([8]))
    assert torch.equal(drawn[1:2], alone)
    assert not torch.equal(drawn[1], drawn[2])
    view = training_view(Image.open(paths[3]), 16, np.random.default_rng(8))
    assert torch.equal(alone[0], to_pixels(view))


def test_without_augmentation_training_sees_whole_images(paths):
    index, seeds = np.arange(6), np.arange(6)
    plain = files(paths, augment=False)
    assert torch.equal(plain.draw(index, seeds), plain.read(index))
    fixed = files(paths).without_augmentation()
    assert torch.equal(fixed.draw(index, seeds), plain.read(index))
    assert fixed.digest() == plain.digest() != files(paths).digest()


def test_in_memory_is_the_same_to_the_last_bit_and_needs_no_file(paths):
    x = files(paths)
    kept = x.in_memory()
    index, seeds = np.array([5, 0, 2]), np.array([1, 2, 3])
    read, drawn, digest = x.read(index), x.draw(index, seeds), x.digest()
    for path in paths:
        path.unlink()
    assert torch.equal(kept.read(index), read)
    assert torch.equal(kept.draw(index, seeds), drawn)
    assert kept.digest() == digest
    assert kept.in_memory() is kept
    with pytest.raises(DataError, match=r"5\.png can no longer be read"):
        x.read(index)


def test_the_bytes_are_those_of_the_decoded_pixels(paths):
    assert files(paths).nbytes == sum(3 * (40 + n) * (30 - n) for n in range(6))


def test_the_digest_is_that_of_content_and_view(paths, tmp_path):
    moved = [p.rename(tmp_path / f"moved-{p.name}") for p in paths]
    digest = files(moved).digest()
    assert digest == files(moved).digest()
    assert digest != files(moved, image_size=24).digest()
    assert digest != files(moved[::-1]).digest()
    paint(moved[2], seed=99)
    assert digest != files(moved).digest()
    expected = hashlib.sha256(repr(ImageView(16, True)).encode())
    for path in moved:
        expected.update(hashlib.sha256(path.read_bytes()).digest())
    assert files(moved).digest() == expected.digest()


# --- datasets ---------------------------------------------------------------------------------


@pytest.fixture
def samples(tmp_path):
    return [
        LabelledPath(paint(tmp_path / d / c / f"{n}.png", hash((d, c, n)) % 1000), c, d)
        for d, labels in {"photo": "ab", "art": "abc", "sketch": "ab"}.items()
        for c in labels
        for n in range(3)
    ]


def test_a_dataset_has_sorted_domains_and_one_list_of_classes(samples):
    dataset = image_dataset("pictures", samples, ImageView(image_size=16))
    assert dataset.domain_names == ("art", "photo", "sketch")
    assert dataset.classes == ("a", "b", "c")
    assert dataset.input_shape == (3, 16, 16)
    assert dataset.domains[0].y.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert dataset.domains[1].y.tolist() == [0, 0, 0, 1, 1, 1]
    assert dataset.notes == (
        "domain 'photo' has no sample of 1 of 3 classes ('c')",
        "domain 'sketch' has no sample of 1 of 3 classes ('c')",
    )


def test_a_missing_class_never_shifts_the_labels_of_others(samples):
    fewer = [s for s in samples if (s.domain, s.label) != ("photo", "a")]
    dataset = image_dataset("pictures", fewer, ImageView(image_size=16))
    assert dataset.domains[1].y.tolist() == [1, 1, 1]


def test_unreadable_images_are_left_out_and_counted(samples):
    samples[0].path.write_bytes(b"no picture")
    whole = samples[1].path.read_bytes()
    samples[1].path.write_bytes(whole[: len(whole) // 2])
    dataset = image_dataset("pictures", samples, ImageView(image_size=16))
    assert dataset.domains[1].y.tolist() == [0, 1, 1, 1]
    note = dataset.notes[0]
    assert note.startswith("domain 'photo': left out 2 images that cannot be read, the first ")
    assert str(samples[0].path) in note


def test_a_domain_without_any_readable_image_is_an_error(samples):
    for sample in samples[:6]:
        sample.path.write_bytes(b"")
    with pytest.raises(DataError, match="domain 'photo' of pictures has no image that can be read"):
        image_dataset("pictures", samples, ImageView(image_size=16))


def test_small_sets_stay_in_memory_and_large_ones_are_read_when_needed(samples):
    dataset = image_dataset("pictures", samples, ImageView(image_size=16))
    total = sum(domain.x.nbytes for domain in dataset.domains)
    kept, lazy = dataset.in_memory(total), dataset.in_memory(total - 1)
    assert lazy is dataset
    assert kept.fingerprint == dataset.fingerprint
    for sample in samples:
        sample.path.unlink()
    assert kept.domains[0].inputs(np.arange(2)).shape == (2, 3, 16, 16)
    with pytest.raises(DataError):
        lazy.domains[0].inputs(np.arange(2))


def test_progress_is_told(samples):
    seen = []
    image_dataset(
        "pictures", samples, ImageView(image_size=16), progress=lambda *told: seen.append(told)
    )
    assert seen[-1] == ("reading images", len(samples), len(samples))
