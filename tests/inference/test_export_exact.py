"""Exported models that were fitted at once: other programs get the same probabilities."""

from __future__ import annotations

import json

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from _internals import (
    DESCRIPTION,
    OPSETS,
    BoostingCandidate,
    Ensemble,
    ForestCandidate,
    Graph,
    InvalidValue,
    LinearCandidate,
    Member,
    Samples,
    TensorForm,
    add_ensemble,
    configure,
    description,
    from_arrays,
    table_dataset,
    to_onnx,
    train,
    trained_model,
)
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from shiftproof import Task, TrainedModel

SMALL = [
    LinearCandidate(variants=(0.01,)),
    BoostingCandidate(variants=(8,)),
    ForestCandidate(variants=(1,), trees=5),
    ForestCandidate("extra", variants=(2,), trees=5, extra=True),
]


def hospitals(classes: int, n: int = 400) -> Samples:
    """Numbers with and without gaps, an empty column, and categories that tell of the class."""
    rng = np.random.default_rng(classes)
    y = rng.integers(0, classes, n)
    x = rng.normal(size=(n, 6)) + y[:, None]
    x[::7, 1] = np.nan
    x[:, 2] = np.nan
    x[:, 3] = np.array([5, 0, 3, 1])[(y + rng.integers(0, 2, n)) % 4]
    x[::9, 3] = np.nan
    x[:, 4] = rng.integers(0, 40, n)
    x[:, 5] = x[:, 5].round()  # many equal numbers
    categorical = np.array([False, False, False, True, True, False])
    return Samples(x, y, np.arange(n) % 3, classes, categorical)


def graph_outputs(ensemble: Ensemble, task: Task, rows: np.ndarray) -> np.ndarray:
    """What onnxruntime computes for raw rows of numbers."""
    graph = Graph(TensorForm(task.input_shape))
    last = add_ensemble(graph, ensemble, task, "rows")
    inputs = onnx.helper.make_tensor_value_info("rows", 11, ["n", *task.input_shape])
    output = onnx.helper.make_tensor_value_info(last, 1, None)
    made = onnx.helper.make_graph(graph.nodes, "g", [inputs], [output], graph.constants)
    opsets = [onnx.helper.make_opsetid(*pair) for pair in OPSETS.items()]
    data = onnx.helper.make_model(made, opset_imports=opsets, ir_version=9).SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    found: np.ndarray = session.run([last], {"rows": rows})[0]
    return found


def strange(x: np.ndarray) -> np.ndarray:
    """The same rows with gaps where there were none, and with unknown categories."""
    x = x.copy()
    x[::5, 0] = np.nan
    x[::4, 2] = 1.0
    for place, code in enumerate((-1, 2, 4, 77, np.nan)):
        x[place::6, 3] = code
    x[::8, 4] = 200
    return x.astype(np.float32).astype(np.float64)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("candidate", SMALL, ids=lambda c: c.name)
def test_a_graph_computes_what_the_member_does(candidate, classes):
    samples = hospitals(classes)
    member = candidate.fit(samples, candidate.variants[0], 0)
    ensemble = Ensemble((Member("m", "", 1.0, 1.0, None, None, member),), classes)
    for rows in (samples.x, strange(samples.x)):
        predicted = graph_outputs(ensemble, Task((6,), classes, 3, "table"), rows)
        assert predicted == pytest.approx(ensemble.predict(rows), abs=1e-6)


def test_splits_by_category_are_among_those_tested():
    boosted = SMALL[1].fit(hospitals(2), 8, 0)
    assert len(boosted.sets) > 1
    assert (boosted.feature[boosted.right != 0] >= 6).any()


def test_the_graph_weighs_tempers_and_places_members():
    samples = hospitals(3)
    without = samples.only(samples.y != 1)  # a member that knows two of three classes
    models = [SMALL[1].fit(samples, 8, 0), SMALL[2].fit(without, 1, 0)]
    ensemble = Ensemble(
        tuple(
            Member("m", "", weight, temperature, None, None, model)
            for weight, temperature, model in zip((0.6, 0.4), (0.7, 2.5), models, strict=True)
        ),
        3,
        0.8,
    )
    rows = strange(samples.x)
    found = graph_outputs(ensemble, Task((6,), 3, 3, "table"), rows)
    assert found == pytest.approx(ensemble.predict(rows), abs=1e-6)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 240
    ill = rng.integers(2, size=n)
    return pd.DataFrame(
        {
            "ward": np.arange(n) % 3,
            "age": np.where(rng.random(n) < 0.2, np.nan, rng.normal(60, 9, n) + 9 * ill),
            "pain": np.array(["none", "some", "much", "most"])[(ill + rng.integers(3, size=n)) % 4],
            "large": rng.normal(1e9, 1e3, n) + 1e3 * ill,
            "ill": ill,
        }
    )


def trained(frame: pd.DataFrame, algorithm, folder, **hparams) -> TrainedModel:
    dataset = table_dataset(frame, "t", "ill", "ward")
    config = configure(dataset, algorithm, test_domains=["0"], hparams=hparams, device="cpu")
    train(config, dataset, folder)
    return trained_model(config, dataset, folder)


def onnx_outputs(data: bytes, inputs: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    found: np.ndarray = session.run(["probabilities"], {"inputs": inputs})[0]
    return found


@pytest.mark.parametrize(
    ("algorithm", "hparams"),
    [("linear", {"penalty": 0.01}), ("boosting", {"trees": 4}), ("forest", {"trees": 3})],
)
def test_onnx_gives_the_same_probabilities(frame, tmp_path, algorithm, hparams):
    model = trained(frame, algorithm, tmp_path, **hparams)
    new = frame.assign(pain=frame.pain.where(frame.index % 5 > 0, "unheard of"))
    new.loc[::6, "pain"] = None
    new.loc[::7, "large"] = np.nan
    cells = model.form.cells(new)
    expected = model.predict_proba(model.form.read(new))
    data = to_onnx(model)
    assert onnx_outputs(data, cells) == pytest.approx(expected, abs=1e-5)
    assert onnx_outputs(data, cells[:1]) == pytest.approx(expected[:1], abs=1e-5)
    assert b".py" not in data  # nor any path of the machine that made it
    stored = {entry.key: entry.value for entry in onnx.load_from_string(data).metadata_props}
    assert json.loads(stored[DESCRIPTION]) == description(model)
    assert description(model)["members"][0]["name"] == algorithm


def columns():
    return make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["age"]), (StandardScaler(), ["large"])
    )


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(columns(), LogisticRegression()),
        make_pipeline(columns(), RandomForestClassifier(5)),
        make_pipeline(columns(), KNeighborsClassifier()),
    ],
    ids=lambda pipeline: type(pipeline[-1]).__name__,
)
def test_an_estimator_of_the_users_own_is_converted(frame, tmp_path, estimator):
    frame = frame.drop(columns="pain").assign(large=frame.large / 1e3 - 1e6)
    model = trained(frame, estimator, tmp_path)
    cells = model.form.cells(frame)
    assert np.isnan(cells).any()
    expected = model.predict_proba(model.form.read(frame))
    assert onnx_outputs(to_onnx(model), cells) == pytest.approx(expected, abs=1e-5)


def test_one_that_is_a_layer_by_itself_needs_no_conversion(frame, tmp_path):
    boosted = HistGradientBoostingClassifier(max_iter=3)
    model = trained(frame.drop(columns="pain"), boosted, tmp_path)
    expected = model.predict_proba(model.form.read(frame))
    found = onnx_outputs(to_onnx(model), model.form.cells(frame))
    assert found == pytest.approx(expected, abs=1e-5)


def test_an_estimator_of_arrays_is_converted(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    x = (rng.normal(size=(90, 4)) + y[:, None]).astype(np.float32)
    dataset = from_arrays(x, np.array(["a", "b", "c"])[y], np.arange(90) % 2 + (y == 1))
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    # Domain 0 has no sample of b, and both others are held out in turn elsewhere.
    config = configure(
        dataset, pipeline, test_domains=["1", "2"], device="cpu", fewest_training_domains=1
    )
    train(config, dataset, tmp_path)
    model = trained_model(config, dataset, tmp_path)
    expected = model.predict_proba(model.form.read(x))
    assert expected[:, 1].max() < 1e-5
    found = onnx_outputs(to_onnx(model), x.astype(np.float64))
    assert found == pytest.approx(expected, abs=1e-5)


def one_hot():
    return make_pipeline(make_column_transformer((OneHotEncoder(), ["pain"])), LogisticRegression())


@pytest.mark.parametrize(
    ("estimator", "said"),
    [
        (one_hot(), r"ColumnTransformer \+ LogisticRegression .* takes texts \('pain'\)"),
        (
            make_pipeline(SimpleImputer(add_indicator=True), LogisticRegression()),
            r"SimpleImputer \+ LogisticRegression cannot be exported by skl2onnx: .",
        ),
    ],
    ids=["texts", "indicator"],
)
def test_what_cannot_be_converted_is_refused_in_one_line(frame, tmp_path, estimator, said):
    table = frame if "texts" in said else frame.drop(columns="pain")
    model = trained(table, estimator, tmp_path)
    with pytest.raises(InvalidValue, match=said) as refused:
        to_onnx(model)
    assert "\n" not in str(refused.value)


def test_a_graph_that_computes_something_else_is_refused(frame, tmp_path):
    # Standardised in float32, numbers about 1e9 that differ by 1e3 lose their digits.
    wrong = make_pipeline(columns(), LogisticRegression())
    model = trained(frame.drop(columns="pain"), wrong, tmp_path)
    with pytest.raises(
        InvalidValue, match="probabilities of the graph by skl2onnx differ by up to"
    ):
        to_onnx(model)
