"""The input form of a model: how rows of a table, image files or arrays become its inputs.

A form is all that a trained model stores of its data to read more of the same kind.  It is fitted
to the training samples and saved with the weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from shiftproof.core.errors import CheckpointError, DataError, InvalidValue
from shiftproof.core.standardize import AUTO, NONE, checked_standardize
from shiftproof.core.text import counted
from shiftproof.data.base import DomainDataset, Progress, silent
from shiftproof.data.domain import LazyInputs, as_numbers
from shiftproof.data.images.files import ImageFiles, ImageView
from shiftproof.data.images.index import scan
from shiftproof.data.preparation import FittedPreparation
from shiftproof.data.tables.preprocessing import Columns, FittedColumns
from shiftproof.data.within_domain import are_categorical, both_views, standardized_by_site

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

# Inputs of a network: a tensor, or files that are read when needed.
Inputs = Tensor | LazyInputs


class InputForm(ABC):
    """How raw inputs become the inputs of a network."""

    kind: ClassVar[str]

    @property
    @abstractmethod
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input as the network takes it."""

    @abstractmethod
    def read(self, raw: Any, progress: Progress = silent) -> Inputs:
        """Return raw inputs as the network takes them: [n, *input_shape]."""

    def to_json(self) -> dict[str, Any]:
        """Return the form as JSON values."""
        return {"kind": self.kind, **vars(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> InputForm:
        """Rebuild what `to_json` returned."""
        fields = {key: item for key, item in value.items() if key != "kind"}
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()})


@dataclass(frozen=True)
class TableForm(InputForm):
    """Rows of a table, imputed, scaled and encoded by the training samples.

    With `raw` the model takes the cells as they are: categories as codes, missing values as NaN.
    If rows are standardised within their site (`standardize`), `read` returns cells, and
    `within_sites` what the model takes; with `auto` it takes both views, side by side.
    """

    columns: FittedColumns
    raw: bool = False
    standardize: str = NONE
    kind = "table"

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The number of features."""
        width = len(self.columns.columns.columns if self.raw else self.columns.feature_names)
        return (2 * width if self.standardize == AUTO else width,)

    def features(self, inputs: Tensor) -> Tensor:
        """Return inputs of the model, [n, *input_shape], imputed, scaled and encoded."""
        cells = inputs[:, : len(self.columns.columns.columns)]  # the first of two views
        return self.columns.apply(cells.double()) if self.raw else as_numbers(inputs)

    def cells(self, raw: pd.DataFrame | Any, table: str = "the table") -> Tensor:
        """Return rows as numbers, [rows, columns] of float64; categories as codes, missing as NaN.

        `raw` is a data frame, whose columns are found by name, or an array of the same numbers in
        the order of the columns.
        """
        import pandas as pd

        if isinstance(raw, pd.DataFrame):
            return self.columns.columns.encode(raw, table)
        cells = as_array(raw).double()
        wanted = len(self.columns.columns.columns)
        if cells.ndim != 2 or cells.shape[1] != wanted:
            raise DataError(
                f"{table} has shape {tuple(cells.shape)}, but the model takes rows of"
                f" {counted(wanted, 'column')}"
            )
        if cells.isinf().any():
            row = int(cells.isinf().any(1).nonzero()[0])
            raise DataError(f"{table} holds an infinite value, the first in row {row + 1}")
        return cells

    def read(self, raw: Any, progress: Progress = silent, table: str = "the table") -> Tensor:
        """Return rows, a data frame or an array, as the model takes them."""
        cells = self.cells(raw, table)
        return self._ready(cells) if self.standardize == NONE else cells

    def within_sites(self, cells: Tensor, sites: Sequence[str] | None) -> Tensor:
        """Return cells, each site's standardised by themselves, as the model takes them."""
        categorical = are_categorical(self.columns.columns)
        if self.standardize != AUTO:
            own = standardized_by_site(cells.numpy(), sites, categorical, self.standardize)
            return self._ready(torch.from_numpy(own))
        pooled = self.columns.pooled(cells)
        return both_views(pooled, sites, categorical).float()

    def _ready(self, cells: Tensor) -> Tensor:
        return self.columns.pooled(cells).float() if self.raw else self.columns.apply(cells)

    def to_json(self) -> dict[str, Any]:
        """Return the fitted columns as JSON values."""
        set_ones: dict[str, Any] = {"raw": True} if self.raw else {}
        if self.standardize != NONE:
            set_ones["standardize"] = self.standardize
        return {"kind": self.kind, **self.columns.to_json(), **set_ones}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TableForm:
        """Rebuild what `to_json` returned."""
        how = checked_standardize(value.get("standardize", NONE))
        return cls(FittedColumns.from_json(value), bool(value.get("raw", False)), how)


@dataclass(frozen=True)
class ImageForm(InputForm):
    """Image files, whole and resized to a square."""

    image_size: int
    kind = "images"

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Three channels of a square."""
        return (3, self.image_size, self.image_size)

    def read(self, raw: Sequence[str | Path] | Any, progress: Progress = silent) -> Inputs:
        """Return image files by their paths, or an array of pixels [n, 3, size, size]."""
        if isinstance(raw, Tensor) or (isinstance(raw, np.ndarray) and raw.dtype.kind in "biufc"):
            return TensorForm(self.input_shape).read(raw)
        records = scan([Path(path).expanduser() for path in raw], progress)
        for record in records:
            if not record.readable:
                raise DataError(f"{record.path}: {record.error}")
        return ImageFiles(records, ImageView(self.image_size, augment=False))


@dataclass(frozen=True)
class TensorForm(InputForm):
    """Arrays of one shape; uint8 is read as numbers in [0, 1]."""

    shape: tuple[int, ...]
    kind = "tensor"

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape."""
        return self.shape

    def read(self, raw: Any, progress: Progress = silent) -> Tensor:
        """Return an array [n, *shape] as it is stored: uint8 or float32."""
        x = as_array(raw)
        if tuple(x.shape[1:]) != self.shape:
            raise DataError(
                f"the inputs have shape {tuple(x.shape)}, but the model takes [n,"
                f" {', '.join(map(str, self.shape))}]"
            )
        if x.dtype == torch.uint8:
            return x
        x = as_numbers(x)
        if not x.isfinite().all():
            wrong = int((~x.isfinite()).flatten(1).any(1).nonzero()[0])
            raise DataError(f"input {wrong} holds a missing or infinite value; replace it")
        return x


FORMS: dict[str, type[InputForm]] = {form.kind: form for form in (TableForm, ImageForm, TensorForm)}


def form_from_json(value: Mapping[str, Any]) -> InputForm:
    """Rebuild a form of any kind."""
    if value.get("kind") not in FORMS:
        raise CheckpointError(
            f"this version does not know the model's kind of input ({value.get('kind')}); the model"
            " was made by a newer version: upgrade shiftproof"
        )
    return FORMS[value["kind"]].from_json(value)


def form_of(
    dataset: DomainDataset, fitted: FittedPreparation | None, *, raw: bool = False
) -> InputForm:
    """Return the form of a dataset's inputs, with its preparation fitted to training samples.

    It holds nothing of other samples.
    """
    if isinstance(fitted, FittedColumns):
        return TableForm(fitted, raw, dataset.standardize)
    if fitted is not None:
        raise InvalidValue(
            f"the preparation of {dataset.name} ({type(fitted).__name__}) cannot be saved with a"
            f" model; only {Columns.__name__} can"
        )
    x = dataset.domains[0].x
    if isinstance(x, ImageFiles):
        return ImageForm(x.view.image_size)
    return TensorForm(dataset.input_shape)


def as_array(raw: Any) -> Tensor:
    """Return numbers as a tensor on the CPU."""
    if isinstance(raw, Tensor):
        return raw.detach().cpu()
    array = np.asarray(raw)
    if array.dtype.kind not in "biuf":
        raise DataError(f"the inputs must be numbers, not {array.dtype}")
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))
