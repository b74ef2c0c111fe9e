"""The input form of a model: how rows of a table, image files or arrays become its inputs.

The form is all that a trained model stores about its data in order to read new samples.  It is
fitted to the training samples and saved with the weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from shiftproof.core.errors import CheckpointError, DataError
from shiftproof.core.standardize import NONE, checked_standardize
from shiftproof.core.text import counted
from shiftproof.data.base import DomainDataset, Progress, silent
from shiftproof.data.domain import LazyInputs, TensorLike, as_array, as_float_rows
from shiftproof.data.images.files import ImageFiles, ImageView
from shiftproof.data.images.index import scan
from shiftproof.data.tables.preprocessing import FittedColumns
from shiftproof.data.tables.read import as_table, is_frame
from shiftproof.data.tables.vectors import check_widths
from shiftproof.data.within_domain import standardized_by_site


class ReadyInputs(np.ndarray):
    """An array that a form has already converted to model inputs; other arrays are raw."""


# Inputs of a network: in memory, or files that are read when needed.
Inputs = ReadyInputs | LazyInputs


def as_ready(x: np.ndarray) -> ReadyInputs:
    """Mark an array as already converted to model inputs."""
    return x.view(ReadyInputs)


class InputForm(ABC):
    """How raw inputs become the inputs of a network."""

    kind: ClassVar[str]

    @property
    @abstractmethod
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one network input."""

    @abstractmethod
    def read(self, raw: Any, progress: Progress = silent) -> Inputs:
        """Convert raw inputs to network inputs, [n, *input_shape]."""

    def to_json(self) -> dict[str, Any]:
        """Return the form as JSON values."""
        return {"kind": self.kind, **vars(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> InputForm:
        """Rebuild a form from the values that `to_json` returned."""
        fields = {key: item for key, item in value.items() if key != "kind"}
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()})


@dataclass(frozen=True)
class TableForm(InputForm):
    """Rows of a table, imputed, scaled and encoded as learnt from the training samples.

    With `raw`, the model gets cells instead of features: categories as codes, missing values as
    NaN.  If rows are standardised within their site (`standardize`), `read` returns cells, which
    `within_sites` converts to model inputs.
    """

    columns: FittedColumns
    raw: bool = False
    standardize: str = NONE
    kind = "table"

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The number of features."""
        return (len(self.columns.columns.columns if self.raw else self.columns.feature_names),)

    def features(self, inputs: np.ndarray) -> np.ndarray:
        """Return the features of model inputs [n, *input_shape]: imputed, scaled and encoded."""
        return self.columns.apply(inputs.astype(np.float64)) if self.raw else as_float_rows(inputs)

    def cells(self, raw: Any, table: str = "the table") -> np.ndarray:
        """Return rows as float64 [rows, columns]: categories as codes, missing values as NaN.

        `raw` is a data frame, whose columns are found by name, or an array of such numbers in
        column order.
        """
        if is_frame(raw):
            rows = as_table(raw, table)
            trained = [column.name for column in self.columns.columns.columns]
            check_widths(trained, rows.column_names, table)
            return self.columns.columns.encode(rows, table)
        cells = numbers_of(raw).astype(np.float64)
        wanted = len(self.columns.columns.columns)
        if cells.ndim != 2 or cells.shape[1] != wanted:
            raise DataError(
                f"{table} has shape {cells.shape}, but the model takes rows of"
                f" {counted(wanted, 'column')}"
            )
        if np.isinf(cells).any():
            row = int(np.flatnonzero(np.isinf(cells).any(axis=1))[0])
            raise DataError(f"{table} holds an infinite value, the first in row {row + 1}")
        return cells

    def read(self, raw: Any, progress: Progress = silent, table: str = "the table") -> ReadyInputs:
        """Convert a data frame or array to model inputs, or to cells if `standardize` is set."""
        cells = self.cells(raw, table)
        return as_ready(self._ready(cells) if self.standardize == NONE else cells)

    def within_sites(self, cells: np.ndarray, sites: Sequence[str] | None) -> ReadyInputs:
        """Standardise the cells of each site separately and convert them to model inputs."""
        categories = self.columns.columns.are_categories
        standard = standardized_by_site(cells, sites, categories, self.standardize)
        return as_ready(self._ready(standard))

    def _ready(self, cells: np.ndarray) -> np.ndarray:
        return as_float_rows(self.columns.pooled(cells)) if self.raw else self.columns.apply(cells)

    def to_json(self) -> dict[str, Any]:
        """Return the fitted columns as JSON values."""
        changed: dict[str, Any] = {"raw": True} if self.raw else {}
        if self.standardize != NONE:
            changed["standardize"] = self.standardize
        return {"kind": self.kind, **self.columns.to_json(), **changed}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TableForm:
        """Rebuild a form from the values that `to_json` returned."""
        how = checked_standardize(value.get("standardize", NONE))
        return cls(FittedColumns.from_json(value), bool(value.get("raw", False)), how)


@dataclass(frozen=True)
class ImageForm(InputForm):
    """Image files, whole and resized to a square."""

    image_size: int
    kind = "images"

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of a square RGB image."""
        return (3, self.image_size, self.image_size)

    def read(self, raw: Sequence[str | Path] | Any, progress: Progress = silent) -> Inputs:
        """Convert paths of image files, or an array of pixels [n, 3, size, size]."""
        pixels = isinstance(raw, np.ndarray) and raw.dtype.kind in "biufc"
        if isinstance(raw, TensorLike) or pixels:
            return TensorForm(self.input_shape).read(raw)
        records = scan([Path(path).expanduser() for path in raw], progress)
        for record in records:
            if not record.readable:
                raise DataError(f"{record.path}: {record.error}")
        return ImageFiles(records, ImageView(self.image_size, augment=False))


@dataclass(frozen=True)
class TensorForm(InputForm):
    """Arrays of one shape; uint8 is scaled to [0, 1] when used."""

    shape: tuple[int, ...]
    kind = "tensor"

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return self.shape

    def read(self, raw: Any, progress: Progress = silent) -> ReadyInputs:
        """Return an array [n, *shape] as uint8 or float32."""
        x = numbers_of(raw)
        if x.shape[1:] != self.shape:
            raise DataError(
                f"the inputs have shape {x.shape}, but the model takes [n,"
                f" {', '.join(map(str, self.shape))}]"
            )
        if x.dtype == np.uint8:
            return as_ready(x)
        x = as_float_rows(x)
        wrong = ~np.isfinite(x).reshape(len(x), -1).all(axis=1)
        if wrong.any():
            raise DataError(f"input {wrong.argmax()} holds a missing or infinite value; replace it")
        return as_ready(x)


FORMS: dict[str, type[InputForm]] = {form.kind: form for form in (TableForm, ImageForm, TensorForm)}


def form_from_json(value: Mapping[str, Any]) -> InputForm:
    """Rebuild a form of any kind from JSON values."""
    if value.get("kind") not in FORMS:
        raise CheckpointError(
            f"this version does not know the model's kind of input ({value.get('kind')}); the model"
            " was made by a newer version: upgrade shiftproof"
        )
    return FORMS[value["kind"]].from_json(value)


def form_of(
    dataset: DomainDataset, fitted: FittedColumns | None, *, raw: bool = False
) -> InputForm:
    """Return the input form of a dataset, with its preparation fitted to training samples.

    The form holds no information about other samples.
    """
    if fitted is not None:
        return TableForm(fitted, raw, dataset.standardize)
    x = dataset.domains[0].given.x
    if isinstance(x, ImageFiles):
        return ImageForm(x.view.image_size)
    return TensorForm(dataset.input_shape)


def numbers_of(raw: Any) -> np.ndarray:
    """Convert an array, tensor or list to a NumPy array of numbers."""
    array = as_array(raw) if isinstance(raw, TensorLike) else np.asarray(raw)
    if array.dtype.kind not in "biuf":
        raise DataError(f"the inputs must be numbers, not {array.dtype}")
    return array


# The domain name of samples whose domain is unknown.
ALL = "all"


@dataclass(frozen=True)
class Samples:
    """Inputs in the order they were found, with their labels and domains if known.

    `names` are columns that identify the samples (a row number, a path).  `labels` and `domains`
    hold one string per sample; a missing label is None.
    """

    inputs: Inputs
    names: Mapping[str, Sequence[Any]]
    labels: Sequence[str | None] | None = None
    domains: Sequence[str] | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.inputs)

    def take(self, index: np.ndarray) -> Samples:
        """Return the samples at `index`."""
        return replace(
            self,
            inputs=_taken(self.inputs, index),
            names={name: [column[i] for i in index] for name, column in self.names.items()},
            labels=None if self.labels is None else [self.labels[i] for i in index],
            domains=None if self.domains is None else [self.domains[i] for i in index],
        )

    def by_domain(self) -> dict[str, Samples]:
        """Return the samples of each domain, sorted by domain name."""
        if self.domains is None:
            return {ALL: self}
        domains = np.array(self.domains, dtype=object)
        return {name: self.take(np.flatnonzero(domains == name)) for name in sorted(set(domains))}


def _taken(inputs: Inputs, index: np.ndarray) -> Inputs:
    if isinstance(inputs, ReadyInputs):
        return as_ready(inputs[index])
    if isinstance(inputs, ImageFiles):
        return ImageFiles([inputs.records[i] for i in index], inputs.view)
    raise DataError(f"samples cannot be taken from {type(inputs).__name__}")
