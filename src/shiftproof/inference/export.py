"""Export a trained model for other programs: ONNX, or its own file (safetensors).

The graph includes scaling and normalising pixels, imputing and standardising columns, one-hot
encoding and softmax.  Reading and resizing image files, and turning texts into codes, are not part
of it; the JSON description of the model covers them.

Networks are converted by torch (`inference.export_networks`), and models of tables from their
arrays (`inference.export_tables`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from shiftproof.core.errors import InvalidValue, named_extras
from shiftproof.data.input_forms import ImageForm, TableForm
from shiftproof.inference.export_tables import (
    BYTE,
    DOUBLE,
    FLOAT,
    OPSETS,
    Graph,
    add_columns,
    add_ensemble,
)
from shiftproof.inference.model import TrainedModel
from shiftproof.learners.exact import Exact

INPUT, OUTPUT = "inputs", "probabilities"
# The name of the output of regression models.
NUMBERS = "predicted"
# The name of the description in the file.
DESCRIPTION = "shiftproof.json"


def inputs_of(model: TrainedModel) -> tuple[str, tuple[int, ...]]:
    """Return the type and shape of an input: cells of a table, bytes of an image, or numbers."""
    if isinstance(model.form, TableForm):
        return "float64", (len(model.form.columns.columns.columns),)
    return "uint8" if isinstance(model.form, ImageForm) else "float32", model.form.input_shape


def description(model: TrainedModel) -> dict[str, Any]:
    """Return a description of the inputs and outputs of an exported model, as JSON values."""
    dtype, shape = inputs_of(model)
    name, output_shape = _output(model)
    described: dict[str, Any] = {
        "input": {"name": INPUT, "shape": ["n", *shape], "dtype": dtype},
        "output": {"name": name, "shape": output_shape, "dtype": "float32"},
        **({"targets": list(model.targets)} if model.targets else {"classes": list(model.classes)}),
        "trained_on": list(model.domains),
        "algorithm": model.config.algorithm,
        "backbone": model.config.extractor.get("backbone", model.config.backbone),
    }
    if isinstance(model.network.algorithm, Exact):
        described["members"] = model.network.algorithm.ensemble.described()
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


def _output(model: TrainedModel) -> tuple[str, list[Any]]:
    """Return the name and shape of the output."""
    return (NUMBERS, ["n"]) if model.target else (OUTPUT, ["n", model.task.num_outputs])


def to_onnx(model: TrainedModel) -> bytes:
    """Return the model in ONNX format for any batch size, with its description in the metadata."""
    with named_extras():
        import onnx
        import onnxscript  # noqa: F401
        import skl2onnx  # noqa: F401
    if model.update is not None:
        raise InvalidValue("a recalibrated model can be exported to safetensors only")
    if model.standardized:
        raise InvalidValue(
            f"a model of rows {model.standardized} needs all rows of a site to predict one, which a"
            " graph does not have; export it to safetensors, or predict with shiftproof"
        )
    proto = _graph(model)
    entry = proto.metadata_props.add()
    entry.key = DESCRIPTION
    entry.value = json.dumps(description(model), ensure_ascii=False, indent=2)
    onnx.checker.check_model(proto)
    data: bytes = proto.SerializeToString()
    return data


def _graph(model: TrainedModel) -> Any:
    """Return the graph without its description.

    The nodes of a table's columns come before a network, those of an ensemble after a frozen
    network, if there is one.
    """
    from onnx import helper

    learner, form = model.network.algorithm, model.form
    exact = isinstance(learner, Exact)
    dtype, shape = inputs_of(model)
    graph, last, network = Graph(form), INPUT, None
    if isinstance(form, TableForm) and not form.raw:
        last, dtype = add_columns(graph, form.columns, INPUT), "float32"
        shape = (len(form.columns.feature_names),)
    if not exact or model.network.stem is not None:
        from shiftproof.inference.export_networks import network_graph

        copied = TrainedModel.from_bytes(model.to_bytes(), "cpu", trust=True)
        network = network_graph(copied, dtype, shape, (last, "outputs"))
        graph.nodes += network.graph.node
        graph.constants += network.graph.initializer
        last = "outputs"
    if exact:
        last = add_ensemble(graph, learner.ensemble, model.task, last)
    name, output_shape = _output(model)
    graph.nodes.append(helper.make_node("Identity", [last], [name]))
    given, given_shape = inputs_of(model)
    kind = {"float64": DOUBLE, "float32": FLOAT, "uint8": BYTE}[given]
    inputs = helper.make_tensor_value_info(INPUT, kind, ["n", *given_shape])
    output = helper.make_tensor_value_info(name, FLOAT, output_shape)
    return helper.make_model(
        helper.make_graph(graph.nodes, "model", [inputs], [output], graph.constants),
        opset_imports=[helper.make_opsetid(domain, number) for domain, number in OPSETS.items()],
        functions=[] if network is None else network.functions,
        ir_version=10,
    )


# The function that creates the file of each format, and its suffix.
FORMATS: dict[str, tuple[Callable[[TrainedModel], bytes], str]] = {
    "onnx": (to_onnx, ".onnx"),
    "safetensors": (TrainedModel.to_bytes, ".safetensors"),
}
