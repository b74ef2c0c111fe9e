"""Export a trained model for other programs: ONNX, or its own file (safetensors).

The graph includes scaling and normalising pixels, imputing and standardising columns, one-hot
encoding and softmax.  Reading and resizing image files, and turning texts into codes, are not part
of it; the JSON description of the model covers them.

skl2onnx converts a user's own scikit-learn estimator.  It does not support every estimator,
converts a few incorrectly, and computes in float32, which loses digits of large numbers; so its
graph is compared with the estimator before export.
"""

from __future__ import annotations

import contextlib
import copy
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.core.errors import InvalidValue
from shiftproof.core.text import listed, reason_of
from shiftproof.core.types import REGRESSION, Task
from shiftproof.data.input_forms import ImageForm, TableForm
from shiftproof.data.tables.preprocessing import FARTHEST, FittedColumns, OneHot, Scaled
from shiftproof.inference.export_layers import ALONE, ExactNetwork, register_features
from shiftproof.inference.model import TrainedModel
from shiftproof.learners.criterion import SMALLEST
from shiftproof.learners.estimator import EstimatorModel, title
from shiftproof.learners.exact import Exact
from shiftproof.models.risk import class_probabilities

# Rows for the comparison, and the largest difference of probabilities (float32 against float64).
ROWS, LARGEST_DIFFERENCE = 512, 1e-4


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
    if not apart <= LARGEST_DIFFERENCE:
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


INPUT, OUTPUT = "inputs", "probabilities"
# The name of the output of regression models.
NUMBERS = "predicted"
# The name of the description in the file.
DESCRIPTION = "shiftproof.json"


class ColumnsLayer(nn.Module):
    """`FittedColumns.apply` as a layer.

    Cells [n, columns] float64, categories by their codes, NaN for missing → [n, features] float32.
    Each feature depends on one column and is scaled, one-hot, or an indicator of missing values.
    All three are computed, and `kind` selects one.
    """

    column: Tensor
    kind: Tensor
    code: Tensor
    median: Tensor
    mean: Tensor
    std: Tensor

    def __init__(self, columns: FittedColumns) -> None:
        super().__init__()
        features: list[tuple[float, ...]] = []  # column, kind, code, median, mean, std
        for part in columns.parts:
            if isinstance(part, Scaled):
                features.append((part.column, 0, 0, part.median, part.mean, part.std))
            elif isinstance(part, OneHot):
                features += [(part.column, 1, code, 0, 0, 1) for code in part.codes]
            else:
                features.append((part.column, 2, 0, 0, 0, 1))
        register_features(self, ("column", "kind", "code", "median", "mean", "std"), features)

    def forward(self, cells: Tensor) -> Tensor:
        """Return the features of the cells."""
        x = cells[:, self.column]
        # Halved as in `Scaled`, to avoid overflow.
        scaled = torch.where(x.isnan(), self.median, x) / 2 - self.mean / 2
        scaled = (scaled / (self.std / 2)).clamp(-FARTHEST, FARTHEST)
        hot = torch.eq(x, self.code).double()
        marks = torch.where(self.kind == 1, hot, x.isnan().double())
        return torch.where(self.kind == 0, scaled, marks).float()


class ExportedModel(nn.Module):
    """Map from stored inputs to class probabilities, or to numbers."""

    def __init__(self, network: nn.Module, columns: FittedColumns | None, task: Task) -> None:
        super().__init__()
        self.task = task
        self.columns = None if columns is None else ColumnsLayer(columns)
        self.network = network

    def forward(self, inputs: Tensor) -> Tensor:
        """Return probabilities [n, c], or numbers [n] or [n, k], for inputs [n, …]."""
        x = inputs if self.columns is None else self.columns(inputs)
        if self.task.kind == REGRESSION:
            numbers: Tensor = self.task.in_units(self.network(x).double())
            return numbers.float()
        return class_probabilities(self.network(x))


def exported(model: TrainedModel) -> ExportedModel:
    """Return the model as one module on the CPU."""
    if model.update is not None:
        raise InvalidValue("a recalibrated model can be exported to safetensors only")
    if model.standardized:
        raise InvalidValue(
            f"a model of rows {model.standardized} needs all rows of a site to predict one, which a"
            " graph does not have; export it to safetensors, or predict with shiftproof"
        )
    model = TrainedModel.from_bytes(model.to_bytes(), "cpu")  # a copy: leave the caller's in place
    form, network = model.form, model.network
    columns = form.columns if isinstance(form, TableForm) and not form.raw else None
    exact = isinstance(network.algorithm, Exact)
    layers: Any = ExactNetwork(network) if exact else network
    return ExportedModel(layers, columns, model.task).eval()


def example_inputs(model: TrainedModel) -> Tensor:
    """Return a batch of two zero inputs: cells of a table, bytes of images, or numbers."""
    if isinstance(model.form, TableForm):
        return torch.zeros(2, len(model.form.columns.columns.columns), dtype=torch.float64)
    dtype = torch.uint8 if isinstance(model.form, ImageForm) else torch.float32
    return torch.zeros(2, *model.form.input_shape, dtype=dtype)


def description(model: TrainedModel) -> dict[str, Any]:
    """Return a description of the inputs and outputs of an exported model, as JSON values."""
    example = example_inputs(model)
    described: dict[str, Any] = {
        "input": {
            "name": INPUT,
            "shape": ["n", *example.shape[1:]],
            "dtype": str(example.dtype).removeprefix("torch."),
        },
        "output": {"name": _output(model), "shape": ["n"], "dtype": "float32"},
        **({"targets": list(model.targets)} if model.targets else {"classes": list(model.classes)}),
        "trained_on": list(model.domains),
        "algorithm": model.config.algorithm,
        "backbone": model.config.extractor.get("backbone", model.config.backbone),
    }
    if model.classes:
        described["output"]["shape"].append(model.task.num_outputs)
    if isinstance(model.network.algorithm, Exact):
        described["members"] = model.network.algorithm.head.ensemble.described()
    if isinstance(model.form, TableForm):
        described["input"]["meaning"] = (
            "one row a sample, one number a column: a number as it is; a category as its position"
            " among the column's values, -1 for any other; NaN for a missing value"
        )
        described["input"]["columns"] = [
            {"name": column.name, "kind": column.kind}
            | ({"values": list(column.values)} if column.kind == "category" else {})
            for column in model.form.columns.columns.columns
        ]
    elif isinstance(model.form, ImageForm):
        described["input"]["meaning"] = (
            "whole images, RGB, upright, resized (bilinear with antialiasing, aspect ratio not"
            " kept), bytes 0-255; the model scales and normalises them"
        )
    else:
        described["input"]["meaning"] = "numbers as in training; bytes are divided by 255"
    if model.network.algorithm.predicts_by_batch:
        described["batches"] = (
            "a prediction depends on its batch: pass all samples of one domain at once"
        )
    return described


def to_onnx(model: TrainedModel) -> bytes:
    """Return the model in ONNX format for any batch size, with its description in the metadata."""
    try:
        import onnx  # type: ignore[import-not-found, unused-ignore]
        import onnxscript  # type: ignore[import-not-found, unused-ignore]  # noqa: F401
        import skl2onnx  # type: ignore[import-untyped, unused-ignore]  # noqa: F401
    except ImportError as error:
        raise InvalidValue(
            "ONNX needs other packages; run pip install 'shiftproof[onnx]'"
        ) from error
    own = own_estimator(model)
    made = estimator_graph(model, own, INPUT, OUTPUT) if own else _graph(model)
    entry = made.metadata_props.add()
    entry.key, entry.value = DESCRIPTION, _text(model)
    onnx.checker.check_model(made)
    data: bytes = made.SerializeToString()
    return data


def _graph(model: TrainedModel) -> Any:
    # Without a maximum, PyTorch 2.7 fails to prove that the size is not 2^63 − 1.
    count = torch.export.Dim("n", min=1, max=2**31)
    with _silence():
        program = torch.onnx.export(
            exported(model),
            (example_inputs(model),),
            input_names=[INPUT],
            output_names=[_output(model)],
            dynamic_shapes=({0: count},),
            dynamo=True,
            verbose=False,
        )
    made = program.model_proto  # type: ignore[union-attr]
    for node in made.graph.node:
        del node.metadata_props[:]  # source lines, with paths of this machine
    return made


# The function that creates the file of each format, and its suffix.
FORMATS: dict[str, tuple[Callable[[TrainedModel], bytes], str]] = {
    "onnx": (to_onnx, ".onnx"),
    "safetensors": (TrainedModel.to_bytes, ".safetensors"),
}


def _output(model: TrainedModel) -> str:
    return NUMBERS if model.target else OUTPUT


def _text(model: TrainedModel) -> str:
    return json.dumps(description(model), ensure_ascii=False, indent=2)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Silence torch's warnings about its exporter."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
