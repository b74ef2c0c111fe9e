"""Models as arrays predict what scikit-learn's do, and arrays that are not valid are refused."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import numpy as np
import pytest
from _internals import Encoder, LinearModel, Samples, TreeModel, boosting_model, forest_model
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as arrays_of
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, QuantileTransformer, StandardScaler

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 5)).astype(np.float32).astype(float)
Y = RNG.integers(0, 3, 400)
SIZES = {"columns": 5, "classes": 3}


def with_codes() -> np.ndarray:
    x = X.copy()
    x[:, 0] = RNG.integers(-1, 6, len(x))
    x[:, 3] = RNG.integers(0, 40, len(x))
    x[RNG.random(x.shape) < 0.1] = np.nan
    return x


def grown(kind: Any = RandomForestClassifier, **settings: Any) -> Any:
    return kind(20, random_state=0, **settings).fit(X, Y)


def boosted(kind: Any = HistGradientBoostingClassifier) -> Any:
    return kind(max_iter=15, categorical_features=[0, 3]).fit(with_codes(), Y)


@pytest.mark.parametrize(
    "kind", [RandomForestClassifier, ExtraTreesClassifier, ExtraTreesRegressor]
)
def test_a_forest_predicts_as_scikit_learns(kind: Any) -> None:
    forest = grown(kind)
    new = (RNG.normal(size=(500, 5)) * 3).astype(np.float32).astype(float)
    if kind is ExtraTreesRegressor:
        expected = forest.predict(new)[:, None]
    else:
        expected = forest.predict_proba(new)
    assert forest_model(forest, None).predict(new) == pytest.approx(expected, abs=1e-12)


def test_missing_values_go_where_they_went_in_training() -> None:
    gaps = np.where(RNG.random(X.shape) < 0.3, np.nan, X)
    forest = RandomForestClassifier(20, random_state=0).fit(gaps, Y)
    expected = forest.predict_proba(gaps)
    assert forest_model(forest, None).predict(gaps) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("kind", [HistGradientBoostingClassifier, HistGradientBoostingRegressor])
def test_boosting_predicts_as_scikit_learns(kind: Any) -> None:
    model = boosted(kind)
    new = with_codes()
    new[::5, 0], new[1::5, 3], new[::7, 2] = 77, -1, np.nan
    numbers = kind is HistGradientBoostingRegressor
    expected = model.predict(new)[:, None] if numbers else model.predict_proba(new)
    arrays = boosting_model(model)
    assert arrays.predict(new) == pytest.approx(expected, abs=1e-12)
    assert len(arrays.sets) > 1


def test_two_of_three_classes_are_known() -> None:
    two = Y != 1
    model = boosting_model(HistGradientBoostingClassifier(max_iter=3).fit(X[two], Y[two]))
    assert model.classes.tolist() == [0, 2]
    assert model.predict(X).shape == (400, 2)


@pytest.mark.parametrize("ranks", [False, True])
def test_the_encoder_is_a_pipeline_of_scikit_learns(ranks: bool) -> None:
    x = with_codes()
    categorical = np.array([True, False, False, True, False])
    encoder = Encoder.fit(Samples(x, Y, Y, 3, categorical), ranks=ranks)
    steps: list[Any] = [SimpleImputer(strategy="median", add_indicator=True), StandardScaler()]
    if ranks:
        transformer = QuantileTransformer(n_quantiles=len(encoder.quantiles)).fit(
            steps[0].fit_transform(x[:, ~categorical])
        )
        transformer.quantiles_ = encoder.quantiles  # smoothed
        steps.insert(1, transformer)
    numbers = make_pipeline(*steps[:-1]) if ranks else steps[0]
    imputed = numbers[0] if ranks else numbers
    z = imputed.fit_transform(x[:, ~categorical])
    z = transformer.transform(z) if ranks else z
    z = steps[-1].fit_transform(z)
    hot = make_column_transformer(
        (SimpleImputer(strategy="constant", fill_value=-2.0), [0, 3])
    ).fit_transform(x)
    expected = np.hstack([z, OneHotEncoder(sparse_output=False).fit_transform(hot)])
    assert encoder.transform(x) == pytest.approx(expected, abs=1e-12)


MODELS = {
    "forest": forest_model(grown(), None),
    "boosting": boosting_model(boosted()),
    "numbers": forest_model(grown(ExtraTreesRegressor), None),
}


def read(model: TreeModel, **changed: np.ndarray) -> TreeModel:
    sizes = {"columns": 5, "classes": 3 if len(model.classes) else 0}
    return TreeModel.from_arrays({**model.arrays(), **changed}, sizes, boosted=model.boosted)


@pytest.mark.parametrize("name", MODELS)
def test_stored_arrays_predict_the_same_to_the_last_bit(name: str) -> None:
    x = with_codes()
    assert np.array_equal(read(MODELS[name]).predict(x), MODELS[name].predict(x))


@pytest.mark.parametrize(
    ("name", "position", "value"),
    [
        ("right", 0, 10**6),
        ("right", 0, 1),
        ("right", 0, -7),
        ("feature", 0, 99),
        ("feature", 0, -3),
        ("sizes", 0, 10**6),
        ("sizes", 0, 0),
        ("threshold", 0, np.nan),
        ("values", 0, np.inf),
        ("values", 0, -1.0),
        ("values", 0, 0.5),
        ("classes", 0, 2),
        ("classes", 0, 3),
        ("baseline", None, np.zeros(2)),
        ("values", None, np.zeros((4, 3))),
        ("threshold", None, np.zeros(3, dtype=np.float32)),
        ("threshold", None, MODELS["forest"].threshold.astype(np.float64)),
        ("set_columns", None, np.array([1])),
        ("right", None, np.zeros((2, 2), dtype=np.int32)),
    ],
)
def test_damaged_trees_are_refused(name: str, position: int | None, value: Any) -> None:
    array = MODELS["forest"].arrays()[name].copy()
    if position is None:
        array = value
    else:
        array[position] = value
    with pytest.raises(ValueError, match=r"\w"):
        read(MODELS["forest"], **{name: array})


def test_a_missing_or_additional_array_is_refused() -> None:
    arrays = MODELS["forest"].arrays()
    for changed in ({**arrays, "gain": np.zeros(1)}, {"classes": arrays["classes"]}):
        with pytest.raises(ValueError, match="a TreeModel has classes, sizes, right"):
            TreeModel.from_arrays(changed, SIZES)


@pytest.mark.parametrize(
    ("name", "value"),
    [("scale", 0.0), ("fills", np.nan), ("numbers", 5), ("numbers", -1), ("hot_columns", 9)],
)
def test_damaged_encoders_are_refused(name: str, value: Any) -> None:
    encoder = Encoder.fit(
        Samples(with_codes(), Y, Y, 3, np.array([True, False, False, True, False]))
    )
    width = encoder.width
    model = LinearModel(np.arange(3), encoder, np.zeros((3, width)), np.zeros(3))
    arrays = model.arrays()
    LinearModel.from_arrays(arrays, SIZES)
    arrays[f"encoder.{name}"] = arrays[f"encoder.{name}"].copy()
    arrays[f"encoder.{name}"][0] = value
    with pytest.raises(ValueError, match=r"\w"):
        LinearModel.from_arrays(arrays, SIZES)


def entries(dtype: np.dtype[Any], count: int) -> st.SearchStrategy[Any]:
    """Values near those that are valid, and any others."""
    if dtype.kind == "i":
        return st.one_of(st.integers(0, 2 * count), st.integers(-(2**31), 2**31 - 1))
    if dtype.kind == "f":
        return st.one_of(st.floats(-9, 9, width=32), st.floats(width=32))
    return st.booleans()


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_random_arrays_are_refused_or_predict_within_bounds(data: st.DataObject) -> None:
    """In a bounded time, whatever the arrays hold."""
    model = MODELS[data.draw(st.sampled_from(sorted(MODELS)))]
    arrays = model.arrays()
    for name in data.draw(st.lists(st.sampled_from(sorted(arrays)), min_size=1, max_size=2)):
        array = arrays[name].copy()
        if array.size == 0 or data.draw(st.integers(0, 9)) == 0:
            shape = data.draw(arrays_of.array_shapes(min_dims=array.ndim, max_dims=array.ndim))
            elements = entries(array.dtype, 9)
            array = data.draw(arrays_of.arrays(array.dtype, shape, elements=elements))
        else:
            position = data.draw(st.integers(0, array.size - 1))
            array.ravel()[position] = data.draw(entries(array.dtype, len(array)))
        arrays[name] = array
    started = time.process_time()
    with contextlib.suppress(ValueError):
        changed = read(model, **arrays)
        predicted = changed.predict(np.nan_to_num(X[:50], nan=1e38))
        assert np.isfinite(predicted).all()
        if len(model.classes):
            assert (predicted >= 0).all()
            assert predicted.sum(axis=1) == pytest.approx(np.ones(50), abs=1e-3)
    assert time.process_time() - started < 5
