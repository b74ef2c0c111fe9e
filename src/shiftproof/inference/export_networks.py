"""Networks as ONNX graphs, converted by torch."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from shiftproof.core.types import REGRESSION, Task
from shiftproof.data.domain import as_numbers
from shiftproof.inference.export_tables import OPSETS
from shiftproof.inference.model import TrainedModel
from shiftproof.models.risk import class_probabilities


class Outputs(nn.Module):
    """Map from inputs [n, …] to class probabilities [n, c], or to numbers [n]."""

    def __init__(self, network: nn.Module, task: Task) -> None:
        super().__init__()
        self.network, self.task = network, task

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the outputs of inputs, or of the features of a table."""
        outputs: Tensor = self.network(inputs)
        if self.task.kind == REGRESSION:
            numbers: Tensor = self.task.in_units(outputs.double())
            return numbers.float()
        return class_probabilities(outputs)


class Features(nn.Module):
    """The frozen network before a learner that was fitted at once: inputs → features [n, k]."""

    def __init__(self, stem: nn.Module) -> None:
        super().__init__()
        self.stem = stem

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the features of inputs, uint8 or floating point."""
        features: Tensor = self.stem(as_numbers(inputs)).float()
        return features


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
    network: Any = model.network
    exact = network.algorithm.exact
    module = Features(network.stem) if exact else Outputs(network, model.task)
    example = torch.zeros(2, *shape, dtype=getattr(torch, dtype))
    # Without a maximum, PyTorch 2.7 fails to prove that the size is not 2^63 − 1.
    count = torch.export.Dim("n", min=1, max=2**31)
    with _silence():
        program = torch.onnx.export(
            module.eval(),
            (example,),
            input_names=[names[0]],
            output_names=[names[1]],
            dynamic_shapes=({0: count},),
            dynamo=True,
            opset_version=OPSETS[""],
            verbose=False,
        )
    proto = program.model_proto  # type: ignore[union-attr]
    for node in proto.graph.node:
        del node.metadata_props[:]  # source lines, with paths of this machine
    return proto


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
