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
from shiftproof.data.input_forms import TableForm
from shiftproof.data.tables.preprocessing import FARTHEST, FittedColumns, OneHot, Scaled
from shiftproof.inference.model import TrainedModel
from shiftproof.models.risk import class_probabilities


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
        names = ("column", "kind", "code", "median", "mean", "std")
        for name, values in zip(names, torch.tensor(features, dtype=torch.float64).T, strict=True):
            self.register_buffer(name, values.long() if name in names[:2] else values.contiguous())

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
    form, network = model.form, model.network
    columns = form.columns if isinstance(form, TableForm) and not form.raw else None
    exact = network.algorithm.exact
    layers: Any = network.stem if exact else network
    module = Features(layers) if exact else ExportedModel(layers, columns, model.task)
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
