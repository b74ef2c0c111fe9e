import hashlib
from importlib import resources

import pytest
from _internals import DataError, data_mnist as mnist

# md5 of the canonical train-images-idx3-ubyte, whose header is magic 2051, 60000, 28, 28.
TRAIN_IMAGES_MD5 = "6bbc9ace898e44ae57da46a324031adb"


def test_the_training_images_are_the_canonical_ones():
    images, _ = mnist.load_mnist()
    header = b"".join(n.to_bytes(4, "big") for n in (2051, 60_000, 28, 28))
    idx = header + images[:60_000].numpy().tobytes()
    assert hashlib.md5(idx).hexdigest() == TRAIN_IMAGES_MD5


def test_the_labels_count_as_published():
    _, labels = mnist.load_mnist()
    counts = labels[:60_000].bincount(minlength=10).tolist()
    assert counts == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    counts = labels[60_000:].bincount(minlength=10).tolist()
    assert counts == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


def test_the_licence_names_the_checksum_that_is_checked():
    licence = (
        resources.files("shiftproof.data.datasets").joinpath("assets/LICENSE-MNIST.txt").read_text()
    )
    assert mnist.SHA256 in licence


def test_a_damaged_asset_is_refused(monkeypatch):
    monkeypatch.setattr(mnist, "SHA256", "0" * 64)
    with pytest.raises(DataError, match="reinstall"):
        mnist.load_mnist.__wrapped__()
