"""A scikit-learn estimator of the user's own: the same treatment as any algorithm."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from _internals import (
    CheckpointError,
    EstimatorModel,
    InvalidValue,
    dumped,
    estimator_title as title,
    identified,
    learners_estimator,
    loaded,
    seeded,
)
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier, StackingClassifier, VotingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC

import shiftproof
from shiftproof import ShiftproofClassifier


@pytest.fixture
def shiftproof_command(request):
    """The fixture of the same name as the package."""
    return request.getfixturevalue("shiftproof")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    ill = rng.integers(0, 2, 120)
    age = rng.normal(60, 9, 120) + 15 * ill
    return pd.DataFrame(
        {
            "site": np.array(["north", "south", "west"])[np.arange(120) % 3],
            "age": np.where(rng.random(120) < 0.2, np.nan, age).astype(np.float32),
            "sex": rng.choice(["f", "m", None], 120),
            "ill": np.array(["no", "yes"])[ill],
        }
    )


def columns():
    return make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["age"]),
        (OneHotEncoder(handle_unknown="ignore"), ["sex"]),
    )


OPTIONS = {"label": "ill", "domain": "site", "device": "cpu"}


def test_it_predicts_what_scikit_learn_predicts_by_itself(table):
    pipeline = make_pipeline(columns(), LogisticRegression())
    run = shiftproof.train(table, pipeline, test_domains="west", **OPTIONS)
    assert not hasattr(pipeline[-1], "coef_")  # a clone was fitted
    rest, held_out = table[table.site != "west"], table[table.site == "west"]
    alone = clone(pipeline).fit(rest[["age", "sex"]], rest.ill)
    expected = alone.predict_proba(held_out[["age", "sex"]])
    model = shiftproof.load_model(run.folder, trust=True)
    predicted = model.predict(model.form.read(held_out)).probabilities
    assert predicted == pytest.approx(expected, abs=1e-6)
    right = (alone.classes_[expected.argmax(axis=1)] == held_out.ill).mean()
    assert run.metrics["accuracy"]["west/in"] == pytest.approx(right)
    (member,) = run.metrics["members"]
    assert member["name"] == "ColumnTransformer + LogisticRegression"
    assert (member["temperature"], member["risk"]) == (1.0, None)
    chances = alone.predict_proba(rest[["age", "sex"]])
    own = chances[np.arange(len(rest)), (rest.ill == "yes").astype(int)]
    assert run.metrics["loss"] == pytest.approx(-np.log(own).mean(), abs=1e-6)


def test_every_domain_is_held_out_and_the_same_call_finds_its_runs(table):
    pipeline = make_pipeline(columns(), RandomForestClassifier(5))
    first = shiftproof.train_each(table, pipeline, **OPTIONS)
    assert [score.domain for score in first.scores] == ["north", "south", "west"]
    again = shiftproof.train_each(table, clone(pipeline), **OPTIONS)
    assert [run.folder for run in again.runs] == [run.folder for run in first.runs]
    assert [run.seconds for run in again.runs] == [run.seconds for run in first.runs]
    other = pipeline.set_params(randomforestclassifier__max_depth=2)
    changed = shiftproof.train(table, other, test_domains="north", **OPTIONS)
    assert changed.folder != first.runs[0].folder
    # The run's seed decides what the estimator leaves open.
    reseeded = shiftproof.train(table, clone(pipeline), test_domains="north", seed=1, **OPTIONS)
    twice = shiftproof.train(table, other, test_domains="north", out="twice", **OPTIONS)
    assert twice.metrics["loss"] == changed.metrics["loss"] != reseeded.metrics["loss"]


class Witness(ClassifierMixin, BaseEstimator):
    """Keeps what it is given; not a type that a model file may hold."""

    seen: dict = {}  # noqa: RUF012

    def fit(self, x, y):
        self.classes_ = np.unique(y)
        self.seen.update(x=x, y=y)
        return self

    def predict_proba(self, x):
        self.seen["new"] = x
        return np.full((len(x), len(self.classes_)), 1 / len(self.classes_))


@pytest.fixture
def witness(monkeypatch):
    monkeypatch.setattr(learners_estimator, "check_types", lambda value: None)
    own = f"{Witness.__module__}.Witness"
    trusted = (*learners_estimator.TRUSTED, own)
    monkeypatch.setattr(learners_estimator, "TRUSTED", trusted)
    return Witness()


def test_a_table_comes_as_a_frame_with_its_own_names_and_texts(table, witness):
    shiftproof.train(table, witness, test_domains="west", **OPTIONS)
    rest = table[table.site != "west"]
    seen = witness.seen["x"].reset_index(drop=True)
    given = rest.sort_values("site", kind="stable")[["age", "sex"]].reset_index(drop=True)
    assert seen.age.dtype == np.float64
    # The samples are those of both domains, in the order of the split.
    key = ["age", "sex"]
    mine, theirs = (f.sort_values(key, ignore_index=True) for f in (seen, given))
    pd.testing.assert_frame_equal(mine, theirs.astype({"age": float}), check_dtype=False)
    assert set(witness.seen["y"]) == {"no", "yes"}
    assert list(witness.seen["new"].columns) == ["age", "sex"]


def test_arrays_come_as_arrays(witness):
    x = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    estimator = ShiftproofClassifier(witness, holdout=0.0, device="cpu")
    estimator.fit(x, np.arange(60) % 2, np.arange(60) % 3)
    assert type(witness.seen["x"]) is np.ndarray
    assert {tuple(row) for row in witness.seen["x"]} == {tuple(row) for row in x.astype(float)}


def test_an_unknown_category_differs_from_a_missing_one():
    columns = [("a", ("u", "v")), ("b", None)]
    made = EstimatorModel(None, columns, np.arange(2)).given(
        np.array([[0, 1.5], [1, np.nan], [-1, 0], [np.nan, 0]])
    )
    assert made.a[:3].tolist() == ["u", "v", "<unknown>"]
    assert made.a.isna().tolist() == [False, False, False, True]
    assert made.b.isna().tolist() == [False, True, False, False]


def test_classes_that_no_training_domain_has_get_no_probability(table):
    table = table.assign(ill=np.where(table.site == "west", "maybe", table.ill))
    run = shiftproof.train(table, DummyClassifier(), test_domains="west", **OPTIONS)
    found = run.model.predict(run.model.form.read(table)).probabilities
    assert run.model.classes == ("maybe", "no", "yes")
    assert found[:, 0] == pytest.approx(0, abs=1e-5)
    assert found.sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize(
    "estimator",
    [
        GridSearchCV(
            make_pipeline(columns(), LogisticRegression()),
            {"logisticregression__C": [0.1, 1.0]},
            scoring="neg_log_loss",
        ),
        make_pipeline(columns(), KNeighborsClassifier(3)),
        make_pipeline(columns(), CalibratedClassifierCV(LinearSVC())),
        make_pipeline(columns(), StackingClassifier([("a", LogisticRegression())])),
        make_pipeline(columns(), VotingClassifier([("a", LogisticRegression())], voting="soft")),
    ],
    ids=title,
)
def test_what_scikit_learn_combines_is_stored_and_read_back(table, estimator):
    run = shiftproof.train(table, estimator, test_domains="west", **OPTIONS)
    assert run.metrics["accuracy"]["west/in"] > 0.6
    read = shiftproof.load_model(run.folder, trust=True)
    assert read.predict(read.form.read(table)).probabilities.shape == (120, 2)


def test_it_is_seeded_where_the_user_left_it_open():
    pipeline = make_pipeline(StandardScaler(), RandomForestClassifier())
    fixed = make_pipeline(StandardScaler(), RandomForestClassifier(random_state=3))
    states = [seeded(clone(p), 7)[-1].random_state for p in (pipeline, pipeline, fixed)]
    assert states[0] == states[1] is not None
    assert states[2] == 3
    assert seeded(clone(pipeline), 8)[-1].random_state != states[0]


def test_what_identifies_it_depends_on_parameters_and_not_on_fits():
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
    before = identified(pipeline)
    pipeline.fit(np.array([[0.0], [1.0]]), [0, 1])
    assert identified(pipeline) == before
    assert identified(pipeline.set_params(logisticregression__C=0.2)) != before
    weights = [{"a": 1.0, "b": weight} for weight in (2.0, 3.0)]
    hashes = {identified(LogisticRegression(class_weight=w))["parameters"] for w in weights}
    assert len(hashes) == 2


def test_an_estimator_is_loaded_only_if_it_is_trusted(table, shiftproof_command):
    run = shiftproof.train(table, DummyClassifier(), test_domains="west", **OPTIONS)
    with pytest.raises(InvalidValue, match="load it with `trust=True`") as refused:
        shiftproof.load_model(run.folder)
    assert "\n" not in str(refused.value)
    table.to_csv("new.csv", index=False)
    code, _, err = shiftproof_command("predict", run.folder, "new.csv")
    assert (code, err.count("\n")) == (2, 1)
    assert "load it with --trust" in err
    assert shiftproof_command("predict", run.folder, "new.csv", "--trust")[0] == 0
    # A type outside the list is refused even then.
    with pytest.raises(CheckpointError, match="Strange"):
        loaded(dumped(Strange()), trust=True)


class Strange(ClassifierMixin, BaseEstimator):
    def fit(self, x, y):
        raise AssertionError("refused before training")

    def predict_proba(self, x): ...


@pytest.mark.parametrize(
    ("estimator", "said"),
    [
        (SVC(), r"SVC has no predict_proba.*CalibratedClassifierCV\(SVC\(…\)\)"),
        (
            LogisticRegression,
            r"must be an instance, not the class LogisticRegression; pass LogisticRegression",
        ),
        (LinearRegression(), "a name or a scikit-learn classifier, not a LinearRegression"),
        (3, "a name or a scikit-learn classifier, not a int"),
        (Strange(), r"contains '.*test_estimator\.Strange'.*must not run any code"),
        (
            make_pipeline(FunctionTransformer(len), LogisticRegression()),
            r"contains 'builtins\.len'",
        ),
        (
            LogisticRegression(),
            "LogisticRegression() cannot be fitted with 'west' held out: ValueError: could not",
        ),
        (
            make_pipeline(make_column_transformer((OneHotEncoder(), ["nothing"])), SVC()),
            "Pipeline has no predict_proba",
        ),
        ("estimator", "pass the object itself from Python"),
    ],
)
def test_a_mistake_is_refused_in_one_line(table, estimator, said):
    with pytest.raises(InvalidValue, match=said.replace("()", r"\(\)")) as refused:
        shiftproof.train(table, estimator, test_domains="west", **OPTIONS)
    assert "\n" not in str(refused.value)


def test_the_cause_of_a_failed_fit_or_prediction_is_chained(table):
    with pytest.raises(InvalidValue) as refused:
        shiftproof.train(table, LogisticRegression(), test_domains="west", **OPTIONS)
    assert isinstance(refused.value.__cause__, ValueError)
    # A category that the held-out domain alone has, which this encoder refuses.
    table = table.assign(sex=np.where(table.site == "west", "w", table.sex))
    strict = make_pipeline(make_column_transformer((OneHotEncoder(), ["sex"])), DummyClassifier())
    with pytest.raises(InvalidValue, match=r"cannot predict: ValueError: Found unknown"):
        shiftproof.train(table, strict, test_domains="west", **OPTIONS)


def test_hparams_belong_to_named_algorithms(table):
    with pytest.raises(InvalidValue, match="the estimator's own parameters"):
        shiftproof.train(table, DummyClassifier(), hparams={"C": 1}, **OPTIONS)


class TestClassifier:
    def test_it_needs_no_domains_and_is_saved_and_loaded(self, table, tmp_path):
        x, y = table[["age", "sex"]], table.ill == "yes"
        pipeline = make_pipeline(columns(), RandomForestClassifier(5))
        estimator = ShiftproofClassifier(pipeline, device="cpu", random_state=0).fit(x, y)
        assert estimator.classes_.tolist() == [False, True]
        estimator.save(tmp_path / "saved")
        with pytest.raises(ValueError, match="if you trust its author, load it with `trust=True`"):
            ShiftproofClassifier.load(tmp_path / "saved")
        read = ShiftproofClassifier.load(tmp_path / "saved", trust=True)
        assert np.array_equal(read.predict_proba(x), estimator.predict_proba(x))
        assert identified(read.algorithm) == identified(pipeline)
        assert read.algorithm[-1].random_state is None

    def test_a_search_reaches_the_parameters_of_the_estimator(self, table):
        x, y = table[["age", "sex"]], table.ill
        own = ShiftproofClassifier(make_pipeline(columns(), LogisticRegression()), device="cpu")
        grid = {"algorithm__logisticregression__C": [1e-9, 1.0]}
        search = GridSearchCV(own, grid, cv=3, scoring="neg_log_loss", error_score="raise")
        search.fit(x, y)
        assert search.best_params_ == {"algorithm__logisticregression__C": 1.0}
