"""The regressor: scikit-learn's own checks, its tools for groups, files, and what it refuses."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from shiftproof import ShiftproofClassifier, ShiftproofError, ShiftproofRegressor, TrainedModel

# The checks fit a few samples, of which a batch is not full; that is told in warnings.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

QUICK = {"hidden": 16, "batch_size": 16, "lr": 0.05}


def expected_failures(estimator):
    if isinstance(estimator.algorithm, Ridge):
        return {}
    how = "batches" if estimator.algorithm == "erm" else "folds, for lack of domains,"
    found = {"check_sample_weight_equivalence_on_dense_data": f"{how} are drawn by row numbers"}
    if estimator.algorithm == "erm":
        rounding = "float32 products of other sizes round otherwise"
        found["check_methods_subset_invariance"] = rounding
    return found


@parametrize_with_checks(
    [
        ShiftproofRegressor("erm", steps=60, hparams=QUICK, device="cpu"),
        ShiftproofRegressor(Ridge(), device="cpu"),
        ShiftproofRegressor(hparams={"budget": 1e-9}, device="cpu"),  # best, of one candidate
    ],
    expected_failed_checks=expected_failures,
)
def test_a_check_of_scikit_learn_passes(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def problem() -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(240, 3)), columns=["a", "b", "c"])
    frame["colour"] = rng.choice(["red", "blue"], 240)
    groups = np.arange(240) % 4
    y = 1e5 + 1e4 * (frame.a + 2 * (frame.colour == "red")) + 500 * rng.normal(size=240)
    return frame, y.to_numpy(), groups


def test_leave_one_group_out(problem):
    x, y, groups = problem
    found = cross_val_score(
        ShiftproofRegressor("linear", device="cpu"),
        x,
        y,
        groups=groups,
        cv=LeaveOneGroupOut(),
        scoring="r2",
    )
    assert len(found) == 4
    assert found.min() > 0.98


def test_a_grid_search_chooses(problem):
    x, y, groups = problem
    search = GridSearchCV(
        ShiftproofRegressor("linear", device="cpu"),
        {"hparams": [{"penalty": 1e-4}, {"penalty": 100.0}], "loss": ["squared"]},
        cv=LeaveOneGroupOut(),
    )
    search.fit(x, y, groups=groups)
    assert search.best_params_["hparams"] == {"penalty": 1e-4}


def test_it_predicts_in_the_units_of_y_and_survives_a_file(problem, tmp_path):
    x, y, groups = problem
    one = ShiftproofRegressor("linear", device="cpu", random_state=0).fit(x, y, groups)
    assert one.score(x, y) > 0.98
    assert abs(one.predict(x) - y).mean() < 1000
    one.save(tmp_path)
    again = ShiftproofRegressor.load(tmp_path, device="cpu")
    assert np.array_equal(again.predict(x), one.predict(x))
    assert again.domains_.tolist() == [0, 1, 2, 3]
    model = TrainedModel.load(tmp_path)
    assert (model.target, model.classes, model.task.kind) == ("y", (), "regression")
    with pytest.raises(ShiftproofError, match="holds a model of regression, not of classification"):
        ShiftproofClassifier.load(tmp_path)
    assert clone(one).loss == "squared"


def test_an_estimator_of_the_users_own_gets_the_numbers_as_they_are(problem):
    x, y, groups = problem
    numbers = x[["a", "b", "c"]]
    own = ShiftproofRegressor(Ridge(), device="cpu").fit(numbers, y, groups)
    plain = Ridge().fit(numbers, y)
    assert own.predict(numbers) == pytest.approx(plain.predict(numbers), rel=1e-5)


def test_images_have_numbers_too():
    rng = np.random.default_rng(0)
    x = rng.random((24, 1, 14, 14)).astype(np.float32)
    y = x.mean(axis=(1, 2, 3)) * 100
    fitted = ShiftproofRegressor(steps=2, device="cpu", hparams={"batch_size": 4}).fit(
        x, y, np.arange(24) % 2
    )
    assert fitted.model_.config.algorithm == "erm"
    assert fitted.predict(x).shape == (24,)


@pytest.mark.parametrize(
    ("settings", "y", "message"),
    [
        (
            {"algorithm": "cdann"},
            np.arange(8.0),
            "cdann only predicts classes, because its discriminator",
        ),
        ({"algorithm": "linear", "loss": "quantile:0.9"}, np.arange(8.0), "is for networks"),
        ({"algorithm": "erm", "loss": "cross_entropy"}, np.arange(8.0), "is for classes, but 'y'"),
        ({"algorithm": "linear"}, np.ones(8), "one value only, 1, in 8 rows"),
        ({"algorithm": "linear"}, np.array(list("abcdefgh")), "could not convert|must hold num"),
        ({"algorithm": LogisticRegression()}, np.arange(8.0), "or a scikit-learn regressor"),
    ],
)
def test_what_cannot_be_is_said(settings, y, message):
    x = np.random.default_rng(0).normal(size=(8, 2))
    with pytest.raises(ValueError, match=message):
        ShiftproofRegressor(**settings, device="cpu", steps=2).fit(x, y, np.arange(8) % 2)


def test_several_targets_are_refused(problem):
    x, y, groups = problem
    with pytest.raises(ValueError, match="y should be a 1d array"):
        ShiftproofRegressor("linear", device="cpu").fit(x, np.stack([y, y], axis=1), groups)
