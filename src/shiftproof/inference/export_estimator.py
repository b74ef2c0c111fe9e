"""Export of a user's own scikit-learn estimator to ONNX, by skl2onnx.

skl2onnx does not support every estimator, converts a few incorrectly, and computes in float32,
which loses digits of large numbers; so its graph is compared with the estimator before export.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from shiftproof.core.errors import InvalidValue
from shiftproof.core.text import listed, reason_of
from shiftproof.data.input_forms import TableForm
from shiftproof.data.tables.preprocessing import FittedColumns, Scaled
from shiftproof.inference.export_exact import ALONE
from shiftproof.inference.model import TrainedModel
from shiftproof.learners.calibration import SMALLEST
from shiftproof.learners.estimator import EstimatorModel, title
from shiftproof.learners.exact import Exact

# Rows for the comparison, and the largest difference of probabilities (float32 against float64).
ROWS, FARTHEST = 512, 1e-4


def own_estimator(model: TrainedModel) -> EstimatorModel | None:
    """Return the user's estimator in a model, or None if there is none or it has its own layer."""
    algorithm = model.network.algorithm
    if isinstance(algorithm, Exact):
        first = algorithm.head.ensemble.members[0].model
        if isinstance(first, EstimatorModel) and type(first.model).__name__ not in ALONE:
            return first
    return None


def estimator_graph(model: TrainedModel, made: EstimatorModel, given: str, found: str) -> Any:
    """Return an ONNX graph with an input named `given` and an output named `found`."""
    import onnx  # type: ignore[import-not-found, unused-ignore]
    from onnx import TensorProto, helper, numpy_helper
    from onnx.reference import ReferenceEvaluator  # type: ignore[import-not-found, unused-ignore]

    name = title(made.model)
    if model.target:
        raise InvalidValue(f"{name} of numbers cannot be exported; predict with shiftproof")
    texts = [column for column, values in made.columns if values is not None]
    if texts:
        raise InvalidValue(
            f"{name} cannot be exported: it takes texts ({listed(texts, 3)}), and a graph takes"
            " numbers; predict with shiftproof"
        )
    if model.network.stem is not None:
        raise InvalidValue(
            f"{name} cannot be exported together with the network that computes its features;"
            " predict with shiftproof"
        )
    shape = model.form.input_shape
    converted = onnx.compose.add_prefix(
        _converted(made.model, int(np.prod(shape)), name), "estimator/"
    )
    (rows,), (_, chances) = converted.graph.input, converted.graph.output
    # Place the probabilities of the estimator's classes among those of all classes.
    places = np.zeros((len(made.classes_), len(model.classes)), dtype=np.float32)
    places[np.arange(len(made.classes_)), made.classes_] = 1
    # Sum by matrix products: the other summing operators differ between versions of ONNX.
    add_up = np.ones((len(model.classes), len(model.classes)), dtype=np.float32)
    constants = {"places": places, "smallest": np.float32(SMALLEST), "add_up": add_up}
    cells = isinstance(model.form, TableForm)
    dtype = TensorProto.DOUBLE if cells else TensorProto.FLOAT
    graph = helper.make_graph(
        [
            helper.make_node("Cast", [given], ["float"], to=TensorProto.FLOAT),
            helper.make_node("Flatten", ["float"], [rows.name], axis=1),
            *converted.graph.node,
            helper.make_node("MatMul", [chances.name, "places"], ["placed"]),
            helper.make_node("Max", ["placed", "smallest"], ["positive"]),
            helper.make_node("MatMul", ["positive", "add_up"], ["sum"]),
            helper.make_node("Div", ["positive", "sum"], [found]),
        ],
        "estimator",
        [helper.make_tensor_value_info(given, dtype, ["n", *shape])],
        [helper.make_tensor_value_info(found, TensorProto.FLOAT, ["n", len(model.classes)])],
        [
            *converted.graph.initializer,
            *(numpy_helper.from_array(np.asarray(v), key) for key, v in constants.items()),
        ],
    )
    result: Any = helper.make_model(graph, opset_imports=list(converted.opset_import))
    result.ir_version = converted.ir_version
    example = _example_rows(model, made)
    try:
        inputs = example.reshape(-1, *shape).astype(np.float64 if cells else np.float32)
        outputs: Any = ReferenceEvaluator(result).run(None, {given: inputs})
    except Exception as error:
        raise _refusal(name, error) from error
    expected = np.zeros((len(example), len(model.classes)))
    expected[:, made.classes_] = made.predict_proba(example)
    apart = float(np.abs(outputs[0] - expected).max())
    if not apart <= FARTHEST:
        raise InvalidValue(
            f"{name} cannot be exported: the probabilities of the graph by skl2onnx differ by up to"
            f" {apart:.2g}; predict with shiftproof"
        )
    return result


def _converted(estimator: Any, columns: int, name: str) -> Any:
    """Return skl2onnx's graph: rows [n, columns] float32 → labels and probabilities."""
    from skl2onnx import convert_sklearn  # type: ignore[import-untyped, unused-ignore]
    from skl2onnx.common.data_types import (  # type: ignore[import-untyped, unused-ignore]
        FloatTensorType,
    )

    numbered = _by_position(copy.deepcopy(estimator))
    try:
        return convert_sklearn(
            numbered,
            initial_types=[("rows", FloatTensorType([None, columns]))],
            options={id(numbered): {"zipmap": False}},
        )
    except Exception as error:
        raise _refusal(name, error) from error


def _by_position(estimator: Any) -> Any:
    """Let leading column transformers select columns by position, because a graph has no names."""
    from sklearn.compose import ColumnTransformer  # type: ignore[import-untyped]

    if isinstance(estimator, ColumnTransformer):
        places = estimator._transformer_to_input_indices
        estimator.transformers_ = [
            (name, made, list(map(int, places[name]))) for name, made, _ in estimator.transformers_
        ]
    for _, step in getattr(estimator, "steps", ())[:1]:
        _by_position(step)
    return estimator


def _example_rows(model: TrainedModel, made: EstimatorModel) -> np.ndarray:
    """Return rows [n, d] like those of training, with missing values if the estimator allows it."""
    from sklearn.utils import get_tags  # type: ignore[import-untyped]

    rng = np.random.default_rng(0)
    rows: np.ndarray = rng.normal(size=(ROWS, int(np.prod(model.form.input_shape))))
    form = model.form
    if isinstance(form, TableForm) and isinstance(form.columns, FittedColumns):
        for part in form.columns.parts:
            if isinstance(part, Scaled):
                rows[:, part.column] = part.mean + part.std * rows[:, part.column]
        if get_tags(made.model).input_tags.allow_nan:
            rows[rng.random(rows.shape) < 0.1] = np.nan
    return rows.astype(np.float32).astype(np.float64)


def _refusal(name: str, error: Exception) -> InvalidValue:
    reason = reason_of(error)
    return InvalidValue(f"{name} cannot be exported by skl2onnx: {reason}")
