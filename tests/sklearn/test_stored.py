"""Saving and loading."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV

import shiftproof
from shiftproof import ShiftproofClassifier, TrainedModel


@pytest.fixture
def fitted(easy, quick):
    x, label, domain = easy
    hparams = quick["hparams"] | {"gradient_weight": np.float64(10.0)}
    settings = quick | {"hparams": hparams, "selection": "ema"}
    return ShiftproofClassifier("idm", **settings).fit(x, np.array(["9", "10"])[label], domain)


def test_what_is_loaded_is_what_was_saved(fitted, easy, tmp_path):
    x = easy[0]
    fitted.save(tmp_path / "model")
    again = ShiftproofClassifier.load(str(tmp_path / "model"), device="cpu")
    assert again.get_params() == fitted.get_params()
    assert np.array_equal(again.predict_proba(x), fitted.predict_proba(x))
    assert np.array_equal(again.typicality(x), fitted.typicality(x))
    for name in ("classes_", "domains_"):
        assert getattr(again, name).dtype == getattr(fitted, name).dtype
        assert getattr(again, name).tolist() == getattr(fitted, name).tolist()
    assert again.records_ == fitted.records_
    assert again.n_features_in_ == 3
    with pytest.raises(ValueError, match=r"X has 2 features, but .* is expecting 3"):
        again.predict(x[:, :2])


def test_the_model_is_one_of_the_librarys(fitted, easy, tmp_path):
    fitted.save(tmp_path)
    model = TrainedModel.load(tmp_path, "cpu")
    assert model.classes == ("9", "10")
    assert model.domains == ("north", "south")
    found = model.predict_proba(model.form.read(easy[0]))
    # Of which the estimator gives "10" first, as NumPy sorts texts.
    assert fitted.classes_.tolist() == ["10", "9"]
    assert np.array_equal(found[:, ::-1], fitted.predict_proba(easy[0]))


def test_names_of_columns_are_kept(easy, quick, tmp_path):
    x, label, _ = easy
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    estimator = ShiftproofClassifier("erm", **quick).fit(frame, label == 1)
    estimator.save(tmp_path)
    again = ShiftproofClassifier.load(tmp_path)
    assert again.classes_.dtype == np.bool_
    assert again.domains_ is None
    assert again.device == "auto"
    assert again.feature_names_in_.tolist() == ["a", "b", "c"]
    assert np.array_equal(again.predict(frame), estimator.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame[["b", "a", "c"]])


def test_a_generator_is_written_as_the_seed_it_gave(easy, quick, tmp_path):
    x, label, domain = easy
    estimator = ShiftproofClassifier("idm", **quick | {"random_state": np.random.RandomState(1)})
    estimator.fit(x, label, domain).save(tmp_path)
    again = ShiftproofClassifier.load(tmp_path, device="cpu")
    assert again.random_state == np.random.RandomState(1).randint(2**31 - 1)
    expected = estimator.predict_proba(x)
    assert np.array_equal(again.fit(x, label, domain).predict_proba(x), expected)


def test_a_folder_that_holds_none(fitted, tmp_path):
    with pytest.raises(
        ValueError, match=r"holds no estimator\.json; give a folder written by save"
    ):
        ShiftproofClassifier.load(tmp_path)
    fitted.model_.save(tmp_path)
    with pytest.raises(ValueError, match=r"holds no estimator\.json"):
        ShiftproofClassifier.load(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "damaged"),
        ("[]", "damaged"),
        ('{"format": 2}', "expected a JSON object with .*classes"),
        ('{"format": 3}', "a newer version"),
        ('{"format": 1}', "written by Shiftproof 0.1"),
    ],
)
def test_a_file_that_cannot_be_read(fitted, tmp_path, text, words):
    fitted.save(tmp_path)
    (tmp_path / "estimator.json").write_text(text)
    with pytest.raises(ValueError, match=words):
        ShiftproofClassifier.load(tmp_path)


def test_what_cannot_be_written_leaves_the_folder_as_it_was(fitted, tmp_path):
    fitted.save(tmp_path)
    before = (tmp_path / "estimator.json").read_bytes()
    fitted.set_params(verbose=object())
    with pytest.raises(ValueError, match="cannot be saved: a object cannot be written"):
        fitted.save(tmp_path)
    assert (tmp_path / "estimator.json").read_bytes() == before
    assert json.loads(before)["params"]["selection"] == "ema"


def test_a_save_cut_short_is_no_mixture_of_two(fitted, easy, tmp_path, monkeypatch):
    fitted.save(tmp_path)

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(TrainedModel, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        fitted.save(tmp_path)
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"holds no estimator\.json"):
        ShiftproofClassifier.load(tmp_path)


def test_a_run_of_the_command_line_is_an_estimator(tmp_path):
    rng = np.random.default_rng(0)
    ill = rng.integers(0, 2, 90)
    frame = pd.DataFrame({"x": rng.normal(size=90) + 2 * ill, "ill": ill, "ward": list("abc") * 30})
    run = shiftproof.train(frame, "linear", label="ill", domain="ward", out=tmp_path / "run")
    estimator = ShiftproofClassifier.load(tmp_path / "run", device="cpu")
    expected = run.model.predict_proba(frame)
    assert np.array_equal(estimator.predict_proba(frame[["x"]]), expected)
    assert estimator.predict(frame[["x"]]).tolist() == [
        ("0", "1")[code] for code in expected.argmax(axis=1)
    ]
    assert estimator.classes_.tolist() == ["0", "1"]
    assert estimator.domains_.tolist() == ["a", "b", "c"]
    assert estimator.algorithm == "linear"
    again = shiftproof.load_model(str(tmp_path / "run")).predict(frame[["x"]].to_numpy())
    assert np.array_equal(again.probabilities, expected)


def test_one_hyper_parameter_in_a_grid_search(easy, quick):
    x, label, _ = easy
    estimator = ShiftproofClassifier("erm", **quick)
    before = dict(estimator.hparams)
    estimator.set_params(hparams__lr=0.01, steps=5)
    assert (estimator.hparams, estimator.steps) == (before | {"lr": 0.01}, 5)
    assert estimator.get_params()["hparams__lr"] == 0.01
    search = GridSearchCV(
        ShiftproofClassifier("linear"), {"hparams__penalty": [1e-3, 10.0]}, cv=2, refit=False
    )
    search.fit(x, label)
    assert not np.isnan(search.cv_results_["mean_test_score"]).any()


def test_the_history_is_a_frame_and_groups_are_hinted_at(fitted, easy):
    frame = fitted.history_
    assert list(frame["step"]) == [record["step"] for record in fitted.records_]
    assert "accuracy north/out" in frame
    x, label, domain = easy
    with pytest.raises(ValueError, match="the domain of each sample is `sample_domain`"):
        ShiftproofClassifier("linear").fit(x, label, groups=domain)
    with pytest.raises(TypeError, match="unexpected keyword argument 'sampel_domain'"):
        ShiftproofClassifier("linear").fit(x, label, sampel_domain=domain)
