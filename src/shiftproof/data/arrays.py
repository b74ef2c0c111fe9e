"""Build a dataset from NumPy, PyTorch or pandas arrays, or from lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from shiftproof.core.errors import DataError
from shiftproof.core.text import counted
from shiftproof.data.base import DomainDataset
from shiftproof.data.domain import TensorLike, as_array, as_float_rows
from shiftproof.data.tables.cell_types import Cells, arrow_array
from shiftproof.data.tables.dataset import rows_dataset
from shiftproof.data.tables.groups import Groups, grouped
from shiftproof.data.tables.label_kind import AUTO, is_one_hot
from shiftproof.data.tables.preprocessing import Column, Columns
from shiftproof.data.tables.read import as_table, is_frame

# Images with more pixels per side are treated as photographs.
_LARGEST_SMALL = 64


def from_arrays(
    x: Any,
    y: Any,
    domain: Any,
    *,
    name: str = "arrays",
    task: str = AUTO,
    weight: np.ndarray | None = None,
    fewest_domains: int = 2,
) -> DomainDataset:
    """Return a dataset of samples `x` with labels `y` and domains `domain`, one per sample.

    `x` is a table [n, features], where NaN is a missing value, or images
    [n, channels, height, width], uint8 or floating point in [0, 1].  Labels and domains are
    numbers, strings or booleans; samples that lack either are left out with a note.  Samples,
    labels and domains are matched by position; the index of a pandas object is ignored.  `task`
    says whether labels are classes or numbers; `auto` infers it from the labels (`label_kind`).
    `weight` [n] holds non-negative sample weights for training.

    A table is treated like a table file (see `table_dataset`): imputed and standardised with
    statistics of the training samples.  Images up to 64 pixels per side belong to the regime
    `small-image` and are trained with `mnist-cnn`; larger ones to `large-image`, with `resnet18`.
    """
    inputs = as_table(x, name) if is_frame(x) else _inputs(x)
    labels, domains = _column(y, "y"), _column(domain, "domain")
    if not len(inputs) == len(labels) == len(domains):
        raise DataError(
            f"`x`, `y` and `domain` have {len(inputs)}, {len(labels)} and {len(domains)} entries;"
            " each needs one per sample"
        )
    if len(inputs) == 0:
        raise DataError("`x` is empty")
    if isinstance(inputs, pa.Table):
        return rows_dataset(
            inputs, labels, domains, name, weight=weight, task=task, fewest_domains=fewest_domains
        )
    groups = grouped(labels, domains, name, task, fewest_domains=fewest_domains)
    groups = groups.with_weights(weight, f"a weight of {name}")
    if inputs.ndim == 4:
        return _images(inputs, groups, name)
    # Float32 is kept, because there can be many features; whole numbers need more precision.
    cells = inputs if inputs.dtype == np.float32 else inputs.astype(np.float64)
    _refuse(np.isinf(cells), "infinite value")
    numbers = Columns(tuple(Column(str(i), "number") for i in range(cells.shape[1])))
    return groups.table(name, cells, numbers)


def _column(given: Any, what: str) -> Cells:
    """Return labels or domains as one column."""
    if isinstance(given, TensorLike):
        given = as_array(given)
    if what == "y" and getattr(given, "ndim", 1) == 2 and is_one_hot(np.asarray(given)):
        raise DataError("`y` holds classes as one-hot rows: pass y.argmax(axis=1), one entry each")
    if getattr(given, "ndim", 1) != 1:
        raise DataError(f"`{what}` must be [n], one entry per sample, not of shape {given.shape}")
    if isinstance(given, list | tuple):
        given = [entry.item() if isinstance(entry, TensorLike) else entry for entry in given]
    try:
        return Cells(what, pa.chunked_array([arrow_array(given)]))
    except TypeError as error:
        raise DataError(f"`{what}` must be a list or array, not {type(given).__name__}") from error


def _inputs(given: Any) -> np.ndarray:
    """Return `x` as a numeric array, [n, features] or [n, channels, height, width]."""
    if isinstance(given, TensorLike):
        given = as_array(given)
    if isinstance(given, np.ma.MaskedArray):
        given = np.ma.filled(given.astype(np.float64), np.nan)
    try:
        x = np.asarray(given)
    except ValueError as error:
        raise DataError("`x` must be an array, but its rows have different lengths") from error
    if x.dtype.kind not in "biuf":
        raise DataError(
            f"`x` must hold numbers, not {x.dtype}; pass columns of texts or of mixed types as a"
            " pandas DataFrame"
        )
    if x.size == 0:
        raise DataError(f"`x` is empty, of shape {x.shape}")
    if x.ndim not in (2, 4):
        raise DataError(
            f"`x` must be [n, features] or images [n, channels, height, width], not of shape"
            f" {x.shape}" + ("; pass grey images as x[:, None]" if x.ndim == 3 else "")
        )
    return x


def _images(x: np.ndarray, groups: Groups, name: str) -> DomainDataset:
    _, channels, height, width = x.shape
    if channels > 4 and width <= 4:
        raise DataError(
            f"`x` of shape {x.shape} seems to have its channels last; pass x.transpose(0, 3, 1, 2)"
        )
    notes = groups.notes
    if x.dtype != np.uint8:
        x = as_float_rows(x)
        _refuse(~np.isfinite(x), "missing or infinite value")
        low, high = float(x.min()), float(x.max())
        if high > 2:
            notes += (
                f"images are expected in [0, 1], but these range from {low:g} to {high:g}; divide"
                " them, or pass them as uint8",
            )
    small = max(height, width) <= _LARGEST_SMALL
    return DomainDataset(
        name,
        groups.domains_of(x),
        groups.classes,
        regime="small-image" if small else "large-image",
        backbone="mnist-cnn" if small else "resnet18",
        eval_every=100 if small else 300,
        notes=notes,
        targets=groups.targets,
    )


def _refuse(wrong: np.ndarray, what: str) -> None:
    samples = np.flatnonzero(wrong.reshape(len(wrong), -1).any(axis=1))
    if len(samples):
        raise DataError(
            f"`x` has {counted(int(wrong.sum()), what)}, the first in x[{int(samples[0])}]"
        )
