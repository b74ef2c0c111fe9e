"""Models of tables as ONNX graphs: encoders, linear models, trees and their ensembles.

Trees are `TreeEnsembleRegressor`s, which compare the same float32 numbers as the model, so rows
reach the same leaves.  skl2onnx converts a user's own scikit-learn estimator.  It does not support
every estimator, converts a few incorrectly, and computes in float32, which loses digits of large
numbers; so its graph is compared with the estimator before export.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from shiftproof.core.errors import InvalidValue
from shiftproof.core.text import listed, reason_of
from shiftproof.core.types import Task
from shiftproof.data.input_forms import InputForm, TableForm
from shiftproof.data.tables.preprocessing import FARTHEST, FittedColumns, Scaled
from shiftproof.learners import criterion, exact
from shiftproof.learners.encoding import MISSING, Encoder
from shiftproof.learners.ensemble import Ensemble
from shiftproof.learners.estimator import EstimatorModel, title
from shiftproof.learners.table_models import LinearModel, TreeModel, boosting_model

# Versions of ONNX's operators and of those of its domain for machine learning.
OPSETS = {"": 18, "ai.onnx.ml": 3}
# Codes of element types in ONNX.
FLOAT, BYTE, INTEGER, DOUBLE = 1, 2, 7, 11
# Rows for the comparison, and the largest difference of probabilities (float32 against float64).
ROWS, LARGEST_DIFFERENCE = 512, 1e-4


class Graph:
    """The nodes and constants of a graph, and the form of its inputs."""

    def __init__(self, form: InputForm) -> None:
        self.form = form
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def __call__(self, kind: str, *inputs: Any, **attributes: Any) -> str:
        """Add a node; return the name of its output.  Arrays among its inputs become constants."""
        from onnx import helper

        names = [name if isinstance(name, str) else self._constant(name) for name in inputs]
        output = f"{kind}-{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, names, [output], **attributes))
        return output

    def _constant(self, array: Any) -> str:
        from onnx import numpy_helper

        name = f"constant-{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def cast(self, values: str, kind: int) -> str:
        """Convert values to another element type."""
        return self("Cast", values, to=kind)

    def columns(self, rows: str, columns: np.ndarray) -> str:
        """Select columns of rows."""
        return self("Gather", rows, columns.astype(np.int64), axis=1)


def add_ensemble(graph: Graph, ensemble: Ensemble, task: Task, inputs: str) -> str:
    """Add an ensemble: inputs [n, …] → class probabilities [n, c] or numbers [n], in float32."""
    rows = graph.cast(graph("Flatten", graph.cast(inputs, FLOAT), axis=1), DOUBLE)
    parts = []
    for member in ensemble.members:
        outputs = _member(graph, member.name, member.model, rows)
        if ensemble.classes:
            # The probabilities of the member's classes, among those of all classes.
            positions = np.eye(ensemble.classes)[member.model.classes]
            outputs = graph("MatMul", _tempered(graph, outputs, member.temperature), positions)
        parts.append(graph("Mul", outputs, np.float64(member.weight)))
    total = graph("Sum", *parts)
    if not ensemble.classes:
        numbers = graph("Mul", total, np.array(task.scale))
        numbers = graph("Add", numbers, np.array(task.center))
        return graph.cast(graph("Squeeze", numbers, np.array([1])), FLOAT)
    if ensemble.temperature != 1:
        total = _tempered(graph, total, ensemble.temperature)
    logs = graph("Log", graph("Max", total, np.float64(exact.SMALLEST)))
    return graph.cast(graph("Softmax", logs, axis=1), FLOAT)


def _tempered(graph: Graph, probabilities: str, temperature: float) -> str:
    """Add what `learners.criterion.tempered` computes."""
    logs = graph("Log", graph("Max", probabilities, np.float64(criterion.SMALLEST)))
    return graph("Softmax", graph("Div", logs, np.float64(temperature)), axis=1)


def _member(graph: Graph, name: str, model: Any, rows: str) -> str:
    """Add a member: rows [n, d] → its probabilities or numbers, in float64."""
    if isinstance(model, EstimatorModel):
        boosted = type(model.model).__name__ == "HistGradientBoostingClassifier"
        if not boosted or _texts(model):
            return _estimator(graph, model, rows)
        model = boosting_model(model.model)
    if not isinstance(model, LinearModel | TreeModel):
        raise InvalidValue(f"{name} cannot be exported; predict with shiftproof")
    features = rows if model.encoder is None else _encoded(graph, model.encoder, rows)
    if isinstance(model, TreeModel):
        outputs, count = _trees(graph, model, features), len(model.baseline)
        link = model.is_classifier and model.boosted
    else:
        products = graph("MatMul", features, model.coefficients.T)
        outputs, count = graph("Add", products, model.intercepts), len(model.intercepts)
        link = model.is_classifier
    if not link:
        return outputs
    if count > 1:
        return graph("Softmax", outputs, axis=1)
    second = graph("Sigmoid", outputs)
    return graph("Concat", graph("Sub", np.ones((1, 1)), second), second, axis=1)


def _encoded(graph: Graph, encoder: Encoder, rows: str) -> str:
    """Add an encoder: rows [n, d] → features [n, k]."""
    numbers = graph.columns(rows, encoder.numbers)
    imputed = graph("Where", graph("IsNaN", numbers), encoder.fills, numbers)
    missing = graph("IsNaN", graph.columns(rows, encoder.indicated))
    numeric = graph("Concat", imputed, graph.cast(missing, DOUBLE), axis=1)
    if len(encoder.quantiles):
        numeric = _ranks(graph, encoder.quantiles, numeric)
    scaled = graph("Div", graph("Sub", numeric, encoder.mean), encoder.scale)
    codes = graph.columns(rows, encoder.hot_columns)
    codes = graph("Where", graph("IsNaN", codes), np.float64(MISSING), codes)
    hot = graph.cast(graph("Equal", codes, encoder.hot_codes), DOUBLE)
    return graph("Concat", scaled, hot, axis=1)


def _ranks(graph: Graph, quantiles: np.ndarray, x: str) -> str:
    """Add what `learners.encoding.ranks_among` computes.

    Equal quantiles span a range of ranks, whose midpoint is the mean of the interpolations from
    the last quantile q ≤ x upward and from the first q ≥ x downward.
    """
    count, columns = quantiles.shape
    points, levels = np.ascontiguousarray(quantiles.T), np.linspace(0, 1, count)
    offsets = np.arange(columns) * count
    spread = graph("Unsqueeze", x, np.array([2]))

    def counted(comparison: str) -> str:
        marks = graph.cast(graph(comparison, spread, points), INTEGER)
        return graph("ReduceSum", marks, np.array([2]), keepdims=0)

    def between(after: str) -> str:
        """Interpolate between the quantiles `after` − 1 and `after`."""
        left = graph("Clip", graph("Sub", after, np.int64(1)), np.int64(0), np.int64(count - 2))
        position = graph("Add", left, offsets)
        low = graph("Gather", points.ravel(), position)
        start = graph("Gather", levels, left)
        right, following = graph("Add", position, np.int64(1)), graph("Add", left, np.int64(1))
        width = graph("Sub", graph("Gather", points.ravel(), right), low)
        rise = graph("Sub", graph("Gather", levels, following), start)
        share = graph("Div", graph("Sub", x, low), width)
        return graph("Add", graph("Mul", rise, share), start)

    both = graph("Add", between(counted("GreaterOrEqual")), between(counted("Greater")))
    ranks = graph("Div", both, np.float64(2))
    above = graph("GreaterOrEqual", x, quantiles[-1])
    below = graph("LessOrEqual", x, quantiles[0])
    return graph("Where", below, np.float64(0), graph("Where", above, np.float64(1), ranks))


def _trees(graph: Graph, model: TreeModel, features: str) -> str:
    """Add the sum or mean of trees: features [n, k] → [n, outputs]."""
    features = graph.cast(
        graph("Concat", features, _outside(graph, model, features), axis=1), FLOAT
    )
    tree = np.repeat(np.arange(len(model.sizes)), model.sizes)
    node = np.arange(len(tree)) - np.repeat(np.cumsum(model.sizes) - model.sizes, model.sizes)
    inner = model.right != 0
    outputs, values = len(model.baseline), model.values
    targets = np.tile(np.arange(outputs), len(values))
    if values.shape[1] != outputs:
        targets = tree[~inner] % outputs
    each_value = np.repeat(np.flatnonzero(~inner), values.shape[1])
    sums = graph(
        "TreeEnsembleRegressor",
        features,
        domain="ai.onnx.ml",
        nodes_treeids=tree,
        nodes_nodeids=node,
        nodes_featureids=np.where(inner, model.feature, 0),
        nodes_values=model.threshold,
        nodes_modes=["BRANCH_LEQ" if branches else "LEAF" for branches in inner],
        nodes_truenodeids=np.where(inner, node + 1, 0),
        nodes_falsenodeids=model.right,
        nodes_missing_value_tracks_true=(model.missing_left & inner).astype(int),
        target_treeids=tree[each_value],
        target_nodeids=node[each_value],
        target_ids=targets,
        target_weights=values.ravel().astype(np.float32),
        n_targets=outputs,
        aggregate_function="SUM" if model.boosted else "AVERAGE",
    )
    return graph("Add", graph.cast(sums, DOUBLE), model.baseline)


def _outside(graph: Graph, model: TreeModel, features: str) -> str:
    """Add the features of sets of codes: 0 if the set contains the code of a row, and 1 if not."""
    sets, codes = model.sets.shape
    cells = graph.columns(features, model.set_columns)
    following = graph("Add", cells, np.float64(1))
    known = graph("Equal", cells, graph("Floor", cells))
    known = graph("And", known, graph("GreaterOrEqual", following, np.float64(0)))
    known = graph("And", known, graph("Less", following, np.float64(codes - 1)))
    position = graph.cast(graph("Where", known, following, np.float64(codes - 1)), INTEGER)
    position = graph("Add", position, np.arange(sets) * codes)
    return graph("Gather", np.append(~model.sets.ravel(), True).astype(np.float64), position)


def add_columns(graph: Graph, columns: FittedColumns, cells: str) -> str:
    """Add what `FittedColumns.apply` computes: cells [n, columns] → features [n, k], in float32."""
    features = []
    for part in columns.parts:
        cell = graph.columns(cells, np.array([part.column]))
        if isinstance(part, Scaled):
            cell = graph("Where", graph("IsNaN", cell), np.float64(part.median), cell)
            # Halved as in `Scaled`, to avoid overflow.
            apart = graph("Sub", graph("Div", cell, np.float64(2)), np.float64(part.mean / 2))
            scaled = graph("Div", apart, np.float64(part.std / 2))
            features.append(graph("Clip", scaled, np.float64(-FARTHEST), np.float64(FARTHEST)))
        else:
            codes = np.array(getattr(part, "codes", ()), dtype=np.float64)
            marks = graph("Equal", cell, codes) if len(codes) else graph("IsNaN", cell)
            features.append(graph.cast(marks, DOUBLE))
    return graph.cast(graph("Concat", *features, axis=1), FLOAT)


def _texts(model: EstimatorModel) -> list[str]:
    return [column for column, values in model.columns if values is not None]


def _estimator(graph: Graph, model: EstimatorModel, rows: str) -> str:
    """Add a user's classifier, converted by skl2onnx."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    name = title(model.model)
    if not model.is_classifier:
        raise InvalidValue(f"{name} of numbers cannot be exported; predict with shiftproof")
    if texts := _texts(model):
        raise InvalidValue(
            f"{name} cannot be exported: it takes texts ({listed(texts, 3)}), and a graph takes"
            " numbers; predict with shiftproof"
        )
    example = _example_rows(graph.form, model)
    try:
        converted = _converted(model.model, example.shape[1])
        _, outputs = ReferenceEvaluator(converted).run(None, {"rows": example})
    except Exception as error:
        raise InvalidValue(f"{name} cannot be exported by skl2onnx: {reason_of(error)}") from error
    apart = float(np.abs(outputs - model.predict(example.astype(np.float64))).max())
    if not apart <= LARGEST_DIFFERENCE:
        raise InvalidValue(
            f"{name} cannot be exported: the probabilities of the graph by skl2onnx differ by up to"
            f" {apart:.2g}; predict with shiftproof"
        )
    inner = onnx.compose.add_prefix(converted, "estimator/").graph
    graph.nodes += [
        onnx.helper.make_node("Cast", [rows], [inner.input[0].name], to=FLOAT),
        *inner.node,
    ]
    graph.constants += inner.initializer
    return graph.cast(inner.output[1].name, DOUBLE)


def _example_rows(form: InputForm, model: EstimatorModel) -> np.ndarray:
    """Return float32 rows like those of training, with missing values if the estimator takes them.

    [n, d]
    """
    from sklearn.utils import get_tags

    rng = np.random.default_rng(0)
    rows: np.ndarray = rng.normal(size=(ROWS, int(np.prod(form.input_shape))))
    if isinstance(form, TableForm) and isinstance(form.columns, FittedColumns):
        for part in form.columns.parts:
            if isinstance(part, Scaled):
                rows[:, part.column] = part.mean + part.std * rows[:, part.column]
        if get_tags(model.model).input_tags.allow_nan:
            rows[rng.random(rows.shape) < 0.1] = np.nan
    return rows.astype(np.float32)


def _converted(estimator: Any, columns: int) -> Any:
    """Return skl2onnx's graph: rows [n, columns] float32 → labels and probabilities."""
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import FloatTensorType

    numbered = _by_position(copy.deepcopy(estimator))
    return convert_sklearn(
        numbered,
        initial_types=[("rows", FloatTensorType([None, columns]))],
        options={id(numbered): {"zipmap": False}},
        target_opset=OPSETS,
    )


def _by_position(estimator: Any) -> Any:
    """Let leading column transformers select columns by position, because a graph has no names."""
    from sklearn.compose import ColumnTransformer

    if isinstance(estimator, ColumnTransformer):
        positions = estimator._transformer_to_input_indices
        estimator.transformers_ = [
            (name, fitted, list(map(int, positions[name])))
            for name, fitted, _ in estimator.transformers_
        ]
    for _, step in getattr(estimator, "steps", ())[:1]:
        _by_position(step)
    return estimator
