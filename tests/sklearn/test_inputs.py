"""What may be given as X."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from _internals import ImageView, dataset_of, recognised
from PIL import Image

from shiftproof import ShiftproofClassifier


@pytest.fixture
def estimator(quick):
    return ShiftproofClassifier("erm", **quick)


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(lambda x: x.tolist(), id="lists"),
        pytest.param(torch.from_numpy, id="tensor"),
        pytest.param(lambda x: torch.from_numpy(x).requires_grad_(), id="tensor with gradient"),
        pytest.param(lambda x: x.astype(object), id="objects"),
        pytest.param(np.asfortranarray, id="by column"),
    ],
)
def test_the_same_numbers_give_the_same_model(easy, estimator, made):
    x, label, domain = easy
    expected = estimator.fit(x, label, domain).predict_proba(x)
    found = estimator.fit(made(x), torch.from_numpy(label), domain).predict_proba(made(x))
    assert np.array_equal(found, expected)
    assert estimator.n_features_in_ == 3
    assert not hasattr(estimator, "feature_names_in_")


def test_bfloat16_is_taken_as_the_numbers_it_holds(easy, estimator):
    x, label, domain = easy
    x = torch.from_numpy(x).bfloat16()
    expected = estimator.fit(x.float(), label, domain).predict_proba(x.float())
    assert np.array_equal(estimator.fit(x, label, domain).predict_proba(x), expected)


def test_a_missing_number_is_the_median_of_the_others(easy, estimator):
    x, label, domain = easy
    gaps = x.copy()
    gaps[::7, 1] = np.nan
    assert estimator.fit(gaps, label, domain).score(gaps, label) > 0.9


@pytest.fixture
def patients(easy):
    x, label, _ = easy
    return pd.DataFrame(
        {
            "age": x[:, 0],
            "ward": np.array(["blue", "red"])[label],
            "smoker": pd.array(label % 2 == 0, dtype="boolean"),
        },
        index=np.arange(120) * 3,
    )


def test_a_data_frame_with_words(easy, estimator, patients):
    _, label, domain = easy
    patients.loc[::9, "age"] = np.nan
    with pytest.warns(UserWarning, match="determines the label exactly; if it is a copy"):
        estimator.fit(patients, label, domain)
    assert estimator.feature_names_in_.tolist() == ["age", "ward", "smoker"]
    assert estimator.n_features_in_ == 3
    assert estimator.score(patients, label) > 0.95
    # A word never seen is no error: it is another ward.
    assert len(estimator.predict(patients.assign(ward="green"))) == 120
    with pytest.raises(ValueError, match="feature names"):
        estimator.predict(patients[["ward", "age", "smoker"]])
    with pytest.raises(ValueError, match="feature names"):
        estimator.predict(patients.drop(columns="age"))


def test_a_frame_of_numbers_and_an_array_of_them_stand_for_each_other(easy, estimator):
    x, label, domain = easy
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    expected = estimator.fit(frame, label, domain).predict_proba(frame)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert np.array_equal(estimator.predict_proba(x), expected)
    estimator.fit(x, label, domain)
    with pytest.warns(UserWarning, match="was fitted without feature names"):
        assert np.array_equal(estimator.predict_proba(frame), expected)


def test_images_in_an_array(easy, quick, estimator):
    _, label, domain = easy
    rng = np.random.default_rng(0)
    images = (40 + 120 * label[:, None, None, None] + rng.integers(40, size=(120, 1, 8, 8))).astype(
        np.uint8
    )
    assert ShiftproofClassifier().backbone is None
    estimator.set_params(backbone="mlp").fit(images, label, domain)
    assert estimator.score(images, label) > 0.95
    assert not hasattr(estimator, "n_features_in_")
    expected = estimator.predict_proba(images)
    assert np.array_equal(estimator.predict_proba(torch.from_numpy(images)), expected)
    with pytest.raises(ValueError, match=r"shape \(2, 1, 9, 9\), but the model takes \[n, 1, 8"):
        estimator.predict(np.zeros((2, 1, 9, 9), np.uint8))
    with pytest.raises(ValueError, match=r"`X` is a table .*, but the estimator was fitted to ima"):
        estimator.predict(np.zeros((2, 64)))
    # The network of the data's own.
    estimator.set_params(backbone=None, steps=1, hparams={"batch_size": 2})
    estimator.fit(images, label, domain)
    assert estimator.model_.config.backbone == "mnist-cnn"


def test_an_estimator_forgets_the_columns_it_was_fitted_to(easy, estimator, patients):
    x, label, domain = easy
    estimator.fit(pd.DataFrame(x, columns=["a", "b", "c"]), label, domain)
    images = x[:, :, None, None].clip(0, 1)
    estimator.set_params(backbone="mlp").fit(images, label, domain)
    assert not hasattr(estimator, "n_features_in_")
    assert not hasattr(estimator, "feature_names_in_")


@pytest.fixture
def photographs(tmp_path):
    """Paths of dark and light pictures from two cameras."""
    rng = np.random.default_rng(0)
    paths, labels, cameras = [], [], []
    for number in range(24):
        level = 60 + 130 * (number % 2)
        pixels = rng.normal(level, 15, size=(12, 10, 3)).clip(0, 255).astype(np.uint8)
        paths.append(tmp_path / f"{number}.png")
        Image.fromarray(pixels).save(paths[-1])
        labels.append("day" if number % 2 else "night")
        cameras.append(number // 12)
    return paths, labels, cameras


@pytest.fixture
def of_files(quick):
    hparams = quick["hparams"] | {"batch_size": 4}
    settings = quick | {"hparams": hparams, "steps": 20, "image_size": 8, "backbone": "mlp"}
    return ShiftproofClassifier("erm", augment=False, **settings)


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(list, id="paths"),
        pytest.param(lambda paths: [str(path) for path in paths], id="texts"),
        pytest.param(lambda paths: np.array([str(path) for path in paths]), id="array"),
        pytest.param(lambda paths: pd.Series(map(str, paths)), id="series"),
    ],
)
def test_image_files(photographs, of_files, made):
    paths, labels, cameras = photographs
    of_files.fit(made(paths), labels, sample_domain=cameras)
    assert of_files.predict(made(paths)).tolist() == labels
    assert not hasattr(of_files, "n_features_in_")


def test_random_views_are_for_training_alone(photographs, of_files):
    paths, labels, cameras = photographs
    whole = of_files.fit(paths, labels, cameras).predict_proba(paths)
    views = of_files.set_params(augment=True).fit(paths, labels, cameras).predict_proba(paths)
    assert not np.array_equal(views, whole)
    assert np.array_equal(of_files.predict_proba(paths), views)


def test_files_that_are_not_there(photographs, of_files, tmp_path):
    paths, labels, cameras = photographs
    wrong = [*paths[:-2], tmp_path / "lost.png", tmp_path / "gone.png"]
    with pytest.raises(
        ValueError, match=r"2 of the 24 files .* the first is X\[22\] = .*lost\.png"
    ):
        of_files.fit(wrong, labels, cameras)
    of_files.fit(paths, labels, cameras)
    with pytest.raises(ValueError, match=r"lost\.png"):
        of_files.predict(wrong)


def test_a_file_that_cannot_be_read_is_left_out_with_a_warning(photographs, of_files):
    paths, labels, cameras = photographs
    paths[3].write_bytes(b"no picture")
    with pytest.warns(UserWarning, match="domain '0': left out 1 image that cannot be read"):
        of_files.fit(paths, labels, cameras)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (["a.png", "b.png"], "paths"),
        ((Path("a.png"),), "paths"),
        (np.array(["a.png"], dtype=object), "paths"),
        ([[1.0, 2.0]], "table"),
        (["1.0"] * 0, "table"),
        (np.zeros(4), "table"),
        (np.zeros((2, 3, 4)), "table"),
        (np.zeros((2, 3, 4, 5)), "images"),
        (torch.zeros(2, 3, 4, 5), "images"),
        (pd.DataFrame({"a": [1]}), "frame"),
        (np.array([["a", "b"]]), "table"),
    ],
)
def test_the_kinds(given, kind):
    assert recognised(given)[0] == kind


@pytest.mark.parametrize("samples", [5, 64])
def test_one_domain_keeps_every_sample_at_its_place(samples):
    x = np.arange(2.0 * samples).reshape(samples, 2)
    labels = [str(number % 2) for number in range(samples)]
    made = dataset_of(
        "table",
        x,
        labels,
        ["here"] * samples,
        task="classification",
        classes=["0", "1"],
        view=ImageView(),
        progress=lambda *_: None,
    )
    (domain,) = made.domains
    assert domain.name == "here"
    assert np.array_equal(domain.x.numpy(), x)
    assert domain.y.tolist() == [number % 2 for number in range(samples)]
    assert made.notes == ()
