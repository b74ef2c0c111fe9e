import numpy as np
import pytest
import torch
from _internals import ANGLES, RotatedMNIST, data_rotated_mnist as rotated_mnist, load_mnist, rotate
from scipy import ndimage


@pytest.fixture(scope="module")
def dataset():
    return RotatedMNIST().load(seed=0)


def test_counts_and_shape_are_those_of_the_card(dataset):
    assert {d.name: len(d) for d in dataset.domains} == RotatedMNIST.card.counts
    assert dataset.input_shape == (1, 28, 28)
    assert all(d.y.unique().tolist() == list(range(10)) for d in dataset.domains)


def test_the_first_domain_is_upright_and_holds_the_digits_it_was_dealt(dataset):
    upright = dataset.domains[0].x.flatten(1)
    known = {image.tobytes() for image in load_mnist().images.flatten(1).numpy()}
    assert all(image.tobytes() in known for image in upright.numpy())


@pytest.mark.parametrize("angle", ANGLES[1:])
def test_turning_agrees_with_scipy(angle):
    image = load_mnist().images[0]
    expected = ndimage.rotate(image.numpy().astype(float), angle, reshape=False, order=1)
    ours = rotate(image.unsqueeze(0), angle)[0].numpy().astype(float)
    # Both take the same direction and the same means, up to rounding.
    assert np.abs(ours - expected).max() <= 1.0


def test_four_right_angles_are_none():
    images = load_mnist().images[:20]
    turned = images
    for _ in range(4):
        turned = rotate(turned, 90)
    assert torch.equal(turned, images)


def test_every_digit_is_dealt_once(dataset):
    assert sum(len(d) for d in dataset.domains) == 70_000
    labels = torch.cat([d.y for d in dataset.domains]).bincount()
    assert torch.equal(labels, load_mnist().labels.long().bincount())


def test_only_the_seed_decides(monkeypatch):
    few = load_mnist().take(np.arange(6000))
    monkeypatch.setattr(rotated_mnist, "load_mnist", lambda: few)
    first, again, other = (RotatedMNIST().load(seed=seed).fingerprint for seed in (0, 0, 1))
    assert first == again
    assert first != other
