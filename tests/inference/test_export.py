"""Exported models: other programs get the same probabilities."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from _internals import (
    DESCRIPTION,
    OPSETS,
    Column,
    Columns,
    Graph,
    TableForm,
    TensorForm,
    add_columns,
    configure,
    description,
    export_FORMATS as FORMATS,
    from_arrays,
    table_dataset,
    to_onnx,
    train,
    trained_model,
)

from shiftproof import TrainedModel


def onnx_outputs(data: bytes, inputs: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    (probabilities,) = session.run(["probabilities"], {"inputs": inputs})
    found: np.ndarray = probabilities
    return found


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 90
    return pd.DataFrame(
        {
            "ward": np.arange(n) % 3,
            "age": np.where(rng.random(n) < 0.2, np.nan, rng.normal(60, 9, n)),
            "pain": rng.choice(["none", "some", "much"], n),
            "large": rng.normal(1e9, 1e3, n),
            "ill": rng.integers(3, size=n),
        }
    )


@pytest.fixture(scope="module")
def tabular(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> TrainedModel:
    folder = tmp_path_factory.mktemp("run")
    dataset = table_dataset(frame, "t", "ill", "ward", missing_indicators=True)
    config = configure(dataset, "erm", test_domains=["0"], steps=30, device="cpu")
    train(config, dataset, folder)
    return trained_model(config, dataset, folder)


def test_a_table_in_a_graph_with_its_preparation_inside(
    tabular: TrainedModel, frame: pd.DataFrame
) -> None:
    assert isinstance(tabular.form, TableForm)
    assert tabular.temperature != 1
    frame = pd.concat([frame, pd.DataFrame({"age": [1e30], "pain": ["agony"], "large": [0.0]})])
    expected = tabular.predict_proba(tabular.form.read(frame))
    cells = tabular.form.cells(frame)
    assert np.isnan(cells).any()  # and a category that nobody knows, and a value far off
    data = to_onnx(tabular)
    np.testing.assert_allclose(onnx_outputs(data, cells), expected, atol=1e-5)
    np.testing.assert_allclose(onnx_outputs(data, cells[:1]), expected[:1], atol=1e-5)
    proto = onnx.load_from_string(data)
    described = {entry.key: entry.value for entry in proto.metadata_props}[DESCRIPTION]
    assert json.loads(described) == description(tabular)


def test_what_it_takes_is_described(tabular: TrainedModel) -> None:
    described = description(tabular)
    assert described["input"]["dtype"] == "float64"
    assert described["input"]["shape"] == ["n", 3]
    assert described["input"]["columns"][1] == {
        "name": "pain",
        "kind": "category",
        "values": ["much", "none", "some"],
    }
    assert described["classes"] == ["0", "1", "2"]
    assert described["trained_on"] == ["1", "2"]
    assert "batches" not in described


@pytest.mark.parametrize(
    ("algorithm", "shape", "dtype"),
    [
        ("idm", (2, 28, 28), np.uint8),
        ("arm", (1, 28, 28), np.float32),
        ("mtl", (5, 28, 28), np.float32),
    ],
)
def test_images_of_any_kind(
    algorithm: str, shape: tuple[int, ...], dtype: type, tmp_path: Path
) -> None:
    rng = np.random.default_rng(1)
    x = rng.random((30, *shape))
    x = (255 * x).astype(np.uint8) if dtype is np.uint8 else x.astype(np.float32)
    dataset = from_arrays(x, np.arange(30) % 2, np.arange(30) % 3)
    config = configure(dataset, algorithm, steps=2, device="cpu", hparams={"batch_size": 4})
    train(config, dataset, tmp_path)
    model = trained_model(config, dataset, tmp_path)
    expected = model.predict_proba(model.form.read(x))
    numbers = x.astype(np.float32) / (255 if dtype is np.uint8 else 1)
    np.testing.assert_allclose(onnx_outputs(to_onnx(model), numbers), expected, atol=1e-5)
    assert ("batches" in description(model)) == (algorithm in ("arm", "mtl"))


def test_safetensors_is_the_model_itself(tabular: TrainedModel, frame: pd.DataFrame) -> None:
    again = TrainedModel.from_bytes(FORMATS["safetensors"][0](tabular))
    inputs = tabular.form.read(frame)
    assert np.array_equal(again.predict_proba(inputs), tabular.predict_proba(inputs))


def test_the_graph_equals_the_columns_to_the_last_bit() -> None:
    rng = np.random.default_rng(3)
    kinds = [Column("a", "number"), Column("b", "category", ("x", "y", "z")), Column("c", "number")]
    cells = np.stack([rng.normal(1e8, 1, 50), rng.integers(-1, 3, 50), rng.normal(0, 1e-8, 50)], 1)
    cells[rng.random(cells.shape) < 0.2] = np.nan
    for indicators in (False, True):
        fitted = Columns(tuple(kinds), indicators).fit(cells[:30])
        graph = Graph(TensorForm((3,)))
        last = add_columns(graph, fitted, "cells")
        inputs = onnx.helper.make_tensor_value_info("cells", 11, ["n", 3])
        output = onnx.helper.make_tensor_value_info(last, 1, None)
        made = onnx.helper.make_graph(graph.nodes, "g", [inputs], [output], graph.constants)
        opsets = [onnx.helper.make_opsetid(*pair) for pair in OPSETS.items()]
        data = onnx.helper.make_model(made, opset_imports=opsets, ir_version=9).SerializeToString()
        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        assert np.array_equal(session.run([last], {"cells": cells})[0], fitted.apply(cells))
