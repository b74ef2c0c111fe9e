"""Networks as ONNX graphs, converted by torch."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from shiftproof.core.types import REGRESSION
from shiftproof.data.domain import as_numbers
from shiftproof.inference.export_tables import OPSETS
from shiftproof.inference.model import TrainedModel
from shiftproof.models.risk import class_probabilities


class Outputs(nn.Module):
    """Map from inputs [n, …] to class probabilities [n, c], or to numbers [n].

    If a learner was fitted at once to the features of a frozen network, the outputs are these
    features [n, k].
    """

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the outputs of inputs, or of the features of a table."""
        learner = self.network.algorithm
        if learner.exact:
            outputs = self.network.stem(as_numbers(inputs))
        elif learner.task.kind == REGRESSION:
            outputs = learner.task.in_units(self.network(inputs).double())
        else:
            outputs = class_probabilities(self.network(inputs))
        numbers: Tensor = outputs.float()
        return numbers


def network_graph(
    model: TrainedModel, dtype: str, shape: tuple[int, ...], names: tuple[str, str]
) -> Any:
    """Return the graph of a network, or of the frozen network before another learner.

    Args:
        model: a copy, which is moved to the CPU.
        dtype: the type of the inputs.
        shape: the shape of one input.
        names: the names of the input and of the output.
    """
    example = torch.zeros(2, *shape, dtype=getattr(torch, dtype))
    # Without a maximum, PyTorch 2.7 fails to prove that the size is not 2^63 − 1.
    count = torch.export.Dim("n", min=1, max=2**31)
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns about its own exporter
            program = torch.onnx.export(
                Outputs(model.network).eval(),
                (example,),
                input_names=[names[0]],
                output_names=[names[1]],
                dynamic_shapes=({0: count},),
                dynamo=True,
                opset_version=OPSETS[""],
                verbose=False,
            )
    finally:
        logging.disable(logging.NOTSET)
    proto = program.model_proto  # type: ignore[union-attr]
    for node in proto.graph.node:
        del node.metadata_props[:]  # source lines, with paths of this machine
    return proto
