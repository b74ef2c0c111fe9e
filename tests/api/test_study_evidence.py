"""Images of a study's page: of each domain, and those of confident errors."""

import base64
import io

import numpy as np
import pandas as pd
import pytest
import torch
from _internals import (
    IMAGES_A_DOMAIN,
    InvalidValue,
    Outputs,
    _some_images,
    confident_errors,
    held_out_runs,
    read_sweep,
)
from PIL import Image

import shiftproof
from shiftproof import Domain, DomainDataset


def decoded(address):
    kind, _, text = address.partition(";base64,")
    assert kind == "data:image/png"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(text))))


def pictures(n=12):
    """Each image is of one grey, which is its number."""
    x = torch.arange(n, dtype=torch.uint8)[:, None, None, None].expand(n, 3, 14, 14) * 10
    return Domain("photo", x.contiguous(), torch.arange(n) % 3)


def test_some_images_are_of_all_classes():
    found = [int(decoded(address)[0, 0, 0]) // 10 for address in _some_images(pictures())]
    assert len(set(found)) == IMAGES_A_DOMAIN
    assert sorted(number % 3 for number in found[:3]) == [0, 1, 2]


def test_errors_have_the_image_of_their_row():
    domain = pictures()
    dataset = DomainDataset("p", (domain,), ("a", "b", "c"), "large-image", "resnet18", 100)
    probabilities = np.full((12, 3), 0.05)
    probabilities[np.arange(12), domain.y.numpy()] = 0.9
    probabilities[7] = [0.95, 0.03, 0.02]  # its class is b
    outputs = Outputs(probabilities, domain.y.numpy(), np.arange(12))
    (error,) = confident_errors(dataset, {"photo": outputs})
    assert (error.row, error.label, error.predicted, error.probability) == (8, "b", "a", 0.95)
    assert (decoded(error.image) == 70).all()


@pytest.fixture(scope="module")
def wards(tmp_path_factory):
    """Runs that hold out each of three wards."""
    folder = tmp_path_factory.mktemp("wards")
    rng = np.random.default_rng(0)
    ill = rng.integers(0, 2, 90)
    frame = pd.DataFrame({"x": rng.normal(size=90) + ill, "ill": ill, "ward": [2, 9, 10] * 30})
    shiftproof.train_each(frame, "linear", label="ill", domain="ward", out=folder)
    return read_sweep(folder)


def test_numbered_domains_are_in_the_order_of_numbers(wards):
    (own,) = held_out_runs(wards)
    assert list(own.expected.outputs) == ["2", "9", "10"]


def test_a_score_that_no_run_has_is_refused(wards):
    (own,) = held_out_runs(wards, "auroc")
    assert own.expected.metric == "auroc"
    with pytest.raises(InvalidValue, match="`metric` 'rmse' is unknown; known: accuracy"):
        held_out_runs(wards, "rmse")
