"""Forests as arrays give the predictions of scikit-learn, and damaged ones are refused."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from _internals import (
    CheckpointError,
    Ensemble,
    Member,
    dumped,
    pack,
    unpack,
)
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 5))
Y = RNG.integers(0, 3, 400)


def grown(kind: Any = RandomForestClassifier, **settings: Any) -> Pipeline:
    forest = kind(20, random_state=0, **settings)
    return Pipeline([("scale", StandardScaler()), ("model", forest)]).fit(X, Y)


def ensemble(model: Any) -> Ensemble:
    return Ensemble((Member("forest", "1", 1.0, 1.0, None, None, model),), 3)


@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
def test_predictions_are_the_same_to_the_last_digit(kind):
    model = grown(kind)
    again = Ensemble.from_bytes(ensemble(model).to_bytes()).members[0].model
    new = RNG.normal(size=(500, 5)) * 3
    assert (again.predict_proba(new) == model.predict_proba(new)).all()
    assert again.classes_.tolist() == [0, 1, 2]


def test_missing_values_go_where_they_went_in_training():
    gaps = np.where(RNG.random(X.shape) < 0.3, np.nan, X)
    model = RandomForestClassifier(20, random_state=0).fit(gaps, Y)
    assert (unpack(pack(model)).predict_proba(gaps) == model.predict_proba(gaps)).all()


def test_packing_leaves_the_model_as_it_was():
    model = grown()
    pack(model)
    assert len(model[-1].estimators_) == 20
    other = LogisticRegression().fit(X, Y)
    assert pack(other) is other
    assert unpack(other) is other


def test_counts_of_samples_are_not_stored():
    again = unpack(pack(grown()))[-1].estimators_[0].tree_
    assert not again.n_node_samples.any()
    assert not again.impurity.any()


def test_a_packed_forest_is_stored_several_times_as_fast():
    model = grown()

    def seconds(value: Any) -> float:
        started = time.process_time()
        dumped(value)
        return time.process_time() - started

    assert min(seconds(pack(model)) for _ in range(3)) < min(seconds(model) for _ in range(3)) / 2


@pytest.mark.parametrize(
    ("array", "place", "value"),
    [
        ("left", 0, 10**6),
        ("left", 0, 0),
        ("right", 0, -7),
        ("feature", 0, 99),
        ("feature", 0, -3),
        ("nodes", 0, 10**6),
        ("depth", None, np.array([3])),
        ("shares", None, np.zeros((4, 3))),
        ("threshold", None, np.zeros(3)),
    ],
)
def test_damaged_trees_are_refused(array, place, value):
    packed = pack(grown())
    joined = packed[-1].estimators_
    if place is None:
        joined[array] = value
    else:
        joined[array] = joined[array].copy()
        joined[array][place] = value
    with pytest.raises(CheckpointError, match="cannot be read"):
        Ensemble.from_bytes(ensemble(packed).to_bytes())


def boosted() -> HistGradientBoostingClassifier:
    x = X.copy()
    x[:, 0] = RNG.integers(0, 6, len(x))
    x[RNG.random(x.shape) < 0.1] = np.nan
    return HistGradientBoostingClassifier(max_iter=15, categorical_features=[0]).fit(x, Y)


def test_boosting_predicts_the_same_to_the_last_digit():
    model = boosted()
    again = Ensemble.from_bytes(ensemble(model).to_bytes()).members[0].model
    new = RNG.normal(size=(500, 5)) * 3
    new[:, 0] = RNG.integers(0, 9, 500)
    new[::7, 2] = np.nan
    assert (again.predict_proba(new) == model.predict_proba(new)).all()
    assert len(model._predictors) == 15
    assert not again._predictors[0][0].nodes["count"].any()


@pytest.mark.parametrize(
    ("part", "field", "value"),
    [
        ("nodes", "left", 10**6),
        ("nodes", "right", 0),
        ("nodes", "feature_idx", 99),
        ("nodes", "feature_idx", -2),
        ("nodes_sizes", None, 10**6),
        ("raw_left_cat_bitsets_sizes", None, -1),
        ("a_stage", None, 7),
    ],
)
def test_damaged_boosting_is_refused(part, field, value):
    packed = pack(boosted())
    joined = packed._predictors
    if part == "a_stage":
        joined[part] = value
    elif field is None:
        joined[part][0] = value
    else:
        joined[part][field][0] = value
    with pytest.raises(CheckpointError, match="cannot be read"):
        Ensemble.from_bytes(ensemble(packed).to_bytes())
