"""The estimator: what it learns, that it is the library's own training, and how it fails."""

import os
import pickle
import signal
import warnings

import numpy as np
import pandas as pd
import pytest
from _internals import Reporter, configure, from_arrays, train, trained_model
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from shiftproof import ALGORITHMS, ShiftproofClassifier, ShiftproofError


def test_matching_holds_up_where_a_feature_reverses_and_erm_does_not(shifted):
    x, y, domain = shifted
    unseen = domain == "D"

    def accuracy(algorithm, seed):
        estimator = ShiftproofClassifier(
            algorithm, steps=150, hparams={"hidden": 16, "lr": 0.01}, random_state=seed
        )
        estimator.fit(x[~unseen], y[~unseen], sample_domain=domain[~unseen])
        return estimator.score(x[unseen], y[unseen])

    for seed in range(2):
        # The first column alone is right for 75% of the samples, the second for 5%.
        assert accuracy("erm", seed) < 0.45
        assert accuracy("idm", seed) > 0.6


def test_it_is_the_run_that_training_would_be(shifted, quick, tmp_path):
    x, y, domain = shifted
    estimator = ShiftproofClassifier("idm", **quick | {"random_state": 7}).fit(x, y, domain)
    dataset = from_arrays(x, y, domain, name="X")
    config = configure(
        dataset,
        "idm",
        steps=20,
        eval_every=10,
        evaluate=["train-out"],
        seed=7,
        device="cpu",
        hparams=quick["hparams"] | {"gradient_warmup": 6},
    )
    assert estimator.model_.config == config
    result = train(config, dataset, tmp_path)
    assert estimator.records_ == result.records
    model = trained_model(config, dataset, tmp_path)
    expected = model.predict_proba(model.form.read(x))
    assert np.array_equal(estimator.predict_proba(x), expected)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(np.array([3, 7]), id="integers"),
        pytest.param(np.array([-1, 1], dtype=np.int8), id="small integers"),
        pytest.param(np.array([10, 9], dtype=np.int32), id="not in the order of their text"),
        pytest.param(np.array(["9", "10"]), id="texts of numbers, which sort as text"),
        pytest.param(np.array(["well", "ill"]), id="texts"),
        pytest.param(np.array(["well", "ill"], dtype=object), id="objects"),
        pytest.param(np.array([True, False]), id="booleans"),
        pytest.param(np.array([0.0, 1.0]), id="whole floats"),
    ],
)
def test_labels_come_back_as_they_were_given(easy, quick, names):
    x, label, domain = easy
    estimator = ShiftproofClassifier("erm", **quick).fit(x, names[label], domain)
    assert estimator.classes_.dtype == names.dtype
    assert estimator.classes_.tolist() == sorted(names.tolist())
    predicted = estimator.predict(x)
    assert predicted.dtype == names.dtype
    assert (predicted == names[label]).mean() > 0.95
    assert estimator.score(x, names[label]) > 0.95
    probability = estimator.predict_proba(x)
    of_the_right_one = probability[
        np.arange(120), np.searchsorted(estimator.classes_, names[label])
    ]
    assert (of_the_right_one > 0.5).mean() > 0.95
    assert np.allclose(probability.sum(axis=1), 1, atol=1e-6)


def test_labels_and_domains_may_be_columns_of_pandas(easy, quick):
    x, label, domain = easy
    frame = pd.DataFrame({"y": label, "d": domain}, index=np.arange(120)[::-1])
    frame["d"] = frame["d"].astype("category")
    estimator = ShiftproofClassifier("erm", **quick).fit(x, frame["y"], frame["d"])
    plain = ShiftproofClassifier("erm", **quick).fit(x, label, domain)
    assert np.array_equal(estimator.predict_proba(x), plain.predict_proba(x))
    assert estimator.domains_.tolist() == ["north", "south"]


def test_erm_does_without_domains(easy, quick):
    x, label, _ = easy
    estimator = ShiftproofClassifier("erm", **quick).fit(x, label)
    assert estimator.domains_ is None
    assert estimator.model_.domains == ("all",)
    assert estimator.score(x, label) > 0.95
    one = ShiftproofClassifier("erm", **quick).fit(x, label, np.full(120, 5))
    assert one.domains_.tolist() == [5]
    assert np.array_equal(one.predict_proba(x), estimator.predict_proba(x))


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name != "estimator"])
def test_every_algorithm_fits_in_a_few_steps(easy, quick, name):
    x, label, domain = easy
    settings = quick | {"steps": np.int64(2)}
    if ALGORITHMS.get(name).exact:
        settings["hparams"] = None  # those of a network
    estimator = ShiftproofClassifier(name, **settings).fit(x, label, domain)
    assert estimator.predict_proba(x).shape == (120, 2)


def test_what_counts_steps_shrinks_with_them_unless_it_is_given(easy, quick):
    x, label, domain = easy
    estimator = ShiftproofClassifier("idm", **quick | {"steps": 100}).fit(x, label, domain)
    assert estimator.model_.config.hparams["gradient_warmup"] == 30  # 1500 · 100 / 5001
    assert estimator.model_.config.hparams["gradient_weight"] == 1e3
    given = quick["hparams"] | {"gradient_warmup": 7}
    estimator.set_params(hparams=given).fit(x, label, domain)
    assert estimator.model_.config.hparams["gradient_warmup"] == 7
    assert given == quick["hparams"] | {"gradient_warmup": 7}


class TestRandomState:
    @pytest.fixture
    def proba(self, easy, quick):
        x, label, domain = easy

        def fitted(random_state):
            estimator = ShiftproofClassifier("erm", **quick | {"steps": 3})
            estimator.set_params(random_state=random_state).fit(x, label, domain)
            return estimator.predict_proba(x)

        return fitted

    def test_a_number_repeats_itself(self, proba):
        assert np.array_equal(proba(0), proba(np.int64(0)))
        assert not np.array_equal(proba(0), proba(1))

    def test_a_generator_goes_on(self, proba):
        state, other = np.random.RandomState(3), np.random.RandomState(3)
        first, second = proba(state), proba(state)
        assert not np.array_equal(first, second)
        assert np.array_equal(proba(other), first)
        assert np.array_equal(proba(other), second)

    def test_none_is_numpys_own(self, proba):
        before = np.random.get_state()
        try:
            np.random.seed(5)
            first, second = proba(None), proba(None)
            np.random.seed(5)
            assert np.array_equal(proba(None), first)
        finally:
            np.random.set_state(before)
        assert not np.array_equal(first, second)


def test_a_second_fit_equals_the_first(easy, quick):
    x, label, domain = easy
    estimator = ShiftproofClassifier("idm", **quick).fit(x, label, domain)
    first = estimator.predict_proba(x)
    estimator.fit(x[:80], 1 - label[:80], domain[:80])
    assert not np.array_equal(estimator.predict_proba(x), first)
    assert np.array_equal(estimator.fit(x, label, domain).predict_proba(x), first)
    assert np.array_equal(clone(estimator).fit(x, label, domain).predict_proba(x), first)


class TestSelection:
    @pytest.fixture
    def few(self, shifted):
        """So few samples, and so high a rate below, that the risk rises in the end."""
        return tuple(part[::4] for part in shifted)

    @pytest.fixture
    def fitted(self, few, quick):
        x, y, domain = few

        def fit(selection, steps=60):
            hparams = quick["hparams"] | {"lr": 0.3}
            settings = quick | {"hparams": hparams, "steps": steps, "selection": selection}
            return ShiftproofClassifier("erm", **settings).fit(x, y, domain)

        return fit

    def test_training_domain_takes_the_step_of_the_lowest_risk(self, fitted, few, quick):
        x, y, domain = few
        history = fitted("training-domain").records_
        best = min(history, key=lambda record: record["validation_risk"])["step"]
        assert 1 < best < 60
        assert history[-1]["weights"] == {"average": "best", "steps": [best, best]}
        # Up to that step, a run of as many steps is the same.
        cut = ShiftproofClassifier(
            "erm", **quick | {"steps": best, "hparams": quick["hparams"] | {"lr": 0.3}}
        )
        chosen = fitted("training-domain").predict_proba(x)
        assert np.array_equal(chosen, cut.fit(x, y, domain).predict_proba(x))
        assert not np.array_equal(chosen, fitted("last").predict_proba(x))

    @pytest.mark.parametrize("selection", ["ema", "swad"])
    def test_averages_are_those_of_training(self, fitted, few, selection):
        averaged, last = fitted(selection, 120), fitted("last", 120)
        assert averaged.records_[-1]["weights"]["average"] == selection
        assert not np.array_equal(averaged.predict_proba(few[0]), last.predict_proba(few[0]))

    def test_an_average_of_nothing_is_said_to_be_one(self, fitted, few):
        with pytest.warns(UserWarning, match="swad found nothing to average in 2 steps"):
            estimator = fitted("swad", 2)
        expected = fitted("last", 2).predict_proba(few[0])
        assert np.array_equal(estimator.predict_proba(few[0]), expected)

    def test_without_a_held_out_part_there_is_nothing_to_select_by(self, easy, quick):
        x, label, domain = easy
        settings = quick | {"selection": "training-domain", "holdout": 0.0}
        with pytest.raises(ValueError, match=r"'north' \(60 samples\) has none in its 'out' part"):
            ShiftproofClassifier("erm", **settings).fit(x, label, domain)
        trained = ShiftproofClassifier("erm", **quick | {"holdout": 0.0}).fit(x, label, domain)
        assert trained.records_[-1]["accuracy"] == {}


class TestMistakes:
    @pytest.fixture
    def message(self, easy, quick):
        x, label, domain = easy

        def of(x=x, y=label, domain=domain, **change):
            with pytest.raises(ValueError) as failure:  # noqa: PT011
                ShiftproofClassifier(**{"algorithm": "idm", **quick, **change}).fit(
                    x, y, sample_domain=domain
                )
            text = str(failure.value)
            assert "\n" not in text
            assert "--" not in text
            assert isinstance(failure.value, ShiftproofError)
            return text

        return of

    def test_no_domains(self, message):
        said = message(domain=None)
        assert "idm compares domains" in said
        assert "fit(X, y, sample_domain=hospitals)" in said
        assert 'without any, `algorithm="erm"` does not use domains' in said

    def test_one_domain(self, message):
        assert "all 120 samples are from one, 'north'" in message(domain=["north"] * 120)

    def test_domains_of_another_number_of_samples(self, easy, quick):
        x, label, domain = easy
        with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[120, 119\]"):
            ShiftproofClassifier("idm", **quick).fit(x, label, domain[1:])

    @pytest.mark.parametrize("nothing", [None, np.nan, pd.NA])
    def test_a_sample_without_a_domain(self, message, easy, nothing):
        domain = easy[2].astype(object)
        domain[[3, 70]] = nothing
        assert (
            "`sample_domain` has no value for 2 samples; the first is sample_domain[3]"
            in message(domain=domain)
        )

    def test_domains_in_a_table(self, message, easy):
        assert "not of shape (120, 1)" in message(domain=easy[2][:, None])

    def test_domains_of_two_types(self, message):
        assert "`sample_domain` mixes int and str" in message(
            domain=np.array(["a", 1] * 60, dtype=object)
        )

    def test_names_that_read_the_same(self, message, easy):
        labels = np.array(["ill", "ill "])[easy[1]]
        assert "`y` holds different values with the same text ('ill', 'ill ')" in message(y=labels)

    def test_a_name_that_stands_for_nothing(self, message, easy):
        assert "`y` holds '?', which means a missing value" in message(
            y=np.array(["ill", "?"])[easy[1]]
        )

    def test_one_class(self, message):
        assert "`y` has only one class, '1', in all 120 samples" in message(y=np.ones(120, int))

    @pytest.mark.parametrize(
        ("setting", "words"),
        [
            ({"algorithm": "imd"}, "unknown algorithm 'imd'; did you mean 'idm'"),
            ({"selection": "best"}, "unknown selection 'best'; "),
            ({"hparams": {"lrr": 1}}, "unknown hyper-parameter of idm on mlp 'lrr'"),
            ({"hparams": {"lr": "fast"}}, "`lr` must be a finite number, not 'fast'"),
            ({"steps": 0}, "`steps` must be at least 1, not 0"),
            ({"steps": 1.5}, "`steps` must be a whole number, not 1.5"),
            ({"holdout": 1.0}, "`holdout` must lie in [0, 1), not 1.0"),
            ({"precision": "fp8"}, "unknown precision 'fp8'"),
            ({"device": "gpu"}, "unknown device 'gpu'"),
            ({"random_state": -1}, "`random_state` must be at least 0, not -1"),
            ({"image_size": 2}, "`image_size` must lie in"),
        ],
    )
    def test_a_setting(self, message, setting, words):
        assert words in message(**setting)

    def test_an_infinite_value(self, easy, quick):
        x, label, domain = easy
        x = x.copy()
        x[4, 1] = np.inf
        with pytest.raises(ValueError, match="Input X contains infinity"):
            ShiftproofClassifier("idm", **quick).fit(x, label, domain)

    def test_a_rate_that_is_too_high(self, message):
        said = message(hparams={"lr": 1e3, "depth": 9, "hidden": 16, "batch_size": 16})
        assert "training diverged: the loss of step" in said
        assert "smaller learning rate" in said

    def test_before_it_is_fitted(self, easy, tmp_path):
        for act in ("predict", "predict_proba", "typicality"):
            with pytest.raises(NotFittedError):
                getattr(ShiftproofClassifier(), act)(easy[0])
        with pytest.raises(NotFittedError):
            ShiftproofClassifier().save(tmp_path / "none")

    def test_a_fit_that_failed_leaves_it_not_fitted(self, easy, quick):
        x, label, _ = easy
        estimator = ShiftproofClassifier("idm", **quick)
        with pytest.raises(ValueError, match="compares domains"):
            estimator.fit(x, label)
        with pytest.raises(NotFittedError):
            estimator.predict(x)


def test_what_one_may_not_expect_is_a_warning_in_pythons_words(easy, quick):
    x, label, domain = easy
    settings = quick | {"hparams": quick["hparams"] | {"batch_size": 64, "gradient_warmup": 100}}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ShiftproofClassifier("idm", **settings).fit(x, label, domain)
    said = sorted(str(warning.message) for warning in caught)
    assert said[0].startswith(
        "a part of idm starts at step 100, which is never reached in 20 steps"
    )
    assert "lower `gradient_warmup`" in said[0]
    assert len(said) == 3
    assert all(text.endswith("lower `batch_size` or `holdout`") for text in said[1:])


def test_ctrl_c_interrupts(easy, quick, monkeypatch):
    x, label, domain = easy
    monkeypatch.setattr(Reporter, "record", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        ShiftproofClassifier("idm", **quick).fit(x, label, domain)


def test_progress_is_printed_if_asked_for(easy, quick, capsys):
    x, label, domain = easy
    ShiftproofClassifier("erm", **quick).fit(x, label, domain)
    assert capsys.readouterr().out == ""
    estimator = ShiftproofClassifier("erm", verbose=True, **quick).fit(x, label, domain)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("erm: step 1 of 20  loss ")
    last = estimator.records_[-1]
    assert lines[-1] == (
        f"erm: step 20 of 20  loss {last['loss']:.4g}"
        f"  north/out {last['accuracy']['north/out']:.3f}"
        f"  south/out {last['accuracy']['south/out']:.3f}"
    )


def test_what_is_unlike_anything_seen_is_not_typical(easy, quick):
    x, label, domain = easy
    estimator = ShiftproofClassifier("erm", **quick).fit(x, label, domain)
    usual, strange = estimator.typicality(x), estimator.typicality(x + 100)
    assert usual.shape == (120,)
    assert (usual < 0.05).mean() < 0.2
    # Among 24 held-out samples, none is as far: (1 + 0) / (24 + 1).
    assert strange.tolist() == [0.04] * 120


def test_pickled_it_predicts_the_same(easy, quick):
    x, label, domain = easy
    estimator = ShiftproofClassifier("idm", **quick).fit(x, label, domain)
    again = pickle.loads(pickle.dumps(estimator))
    assert np.array_equal(again.predict_proba(x), estimator.predict_proba(x))
    assert again.get_params() == estimator.get_params()


def test_by_default_rows_get_best_with_or_without_domains(easy):
    x, label, domain = easy
    for domains in (domain, None):
        # So little time that the ensemble has one member.
        estimator = ShiftproofClassifier(hparams={"budget": 1e-9}, device="cpu", random_state=0)
        estimator.fit(x, label, domains)
        config = estimator.model_.config
        assert (config.algorithm, config.holdout) == ("best", 0)
        assert estimator.algorithm is None
        assert estimator.score(x, label) > 0.9


def test_by_default_images_get_automatic_strength_which_needs_domains():
    images = np.random.default_rng(0).random((12, 1, 8, 8))
    labels, domains = np.arange(12) % 2, np.repeat(["a", "b"], 6)
    small = {"steps": 1, "backbone": "mlp", "device": "cpu", "hparams": {"batch_size": 4}}
    estimator = ShiftproofClassifier(**small).fit(images, labels, domains)
    assert estimator.model_.config.algorithm == "idm-auto"
    with pytest.raises(ValueError, match="idm-auto compares domains"):
        ShiftproofClassifier(**small).fit(images, labels)
