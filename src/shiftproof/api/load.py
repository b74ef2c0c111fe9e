"""`load`: load data by name, from files or from memory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from shiftproof.core.errors import InvalidValue
from shiftproof.data.arrays import from_arrays
from shiftproof.data.base import DATASETS, DomainDataset, Progress, silent
from shiftproof.data.load import DataRequest
from shiftproof.data.tables.label_kind import AUTO, checked_task

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

# A name or path, a table, the arrays (x, y, domain), or the result of `load`.
Data: TypeAlias = "str | os.PathLike[str] | pd.DataFrame | tuple[Any, Any, Any] | DomainDataset"
# The name of an in-memory table, in messages and in the names of runs.
TABLE = "table"


class LoadOptions(TypedDict, total=False):
    """The keywords of `load` that other functions also accept."""

    label: str | None
    domain: str | None
    image: str | None
    drop: str | Sequence[str]
    categorical: str | Sequence[str]
    by: str | int | None
    pool_below: int
    weights_column: str | None
    options: Mapping[str, object] | None
    image_size: int | None
    task: str


def load(
    data: Data,
    *,
    label: str | None = None,
    domain: str | None = None,
    image: str | None = None,
    drop: str | Sequence[str] = (),
    categorical: str | Sequence[str] = (),
    by: str | int | None = None,
    pool_below: int = 0,
    weights_column: str | None = None,
    options: Mapping[str, object] | None = None,
    image_size: int | None = None,
    task: str = AUTO,
    seed: int = 0,
    progress: Progress = silent,
) -> DomainDataset:
    """Load data from several domains, for use with all other functions.

    Args:
        data: a dataset name (listed in `shiftproof.DATASETS`); the path of an image folder
            (`DIR/domain/class/*.jpg`), a table (CSV or Parquet) or an image manifest; a pandas
            DataFrame; the arrays `(x, y, domain)`; or a `DomainDataset`, which is returned
            unchanged.
        label: label column of a table or manifest; by default `label`.
        domain: domain column; by default `domain`.  The values of several columns, separated by
            commas, are joined.
        image: column with the paths of image files; makes the table a manifest.
        drop: columns to ignore, in a list or separated by commas.
        categorical: numeric columns to treat as categorical, in a list or separated by commas.
        by: how to form domains from the domain column of a table: the `year`, `quarter` or `month`
            of dates, a number of bins for numbers, or `value` for the values themselves.
        pool_below: merge domains with fewer rows than this into one.
        weights_column: column of a table with the weight of each row in training, at least 0:
            weight 2 equals repeating the row, and weight 0 leaves it out.  It is not used as a
            feature, and scores are not weighted.
        options: options of the dataset, the images or the table.
        image_size: height and width of the images; 224 by default.
        task: `classification` or `regression`.  By default inferred from the label column: text and
            few distinct integers are classes, many distinct numbers are regression targets (with a
            note), and an ambiguous column is an error.
        seed: seed of randomly generated datasets.
        progress: called with the name of the task, the amount done and the total.
    """
    given = dict(options or {})
    if image_size is not None:
        if "image_size" in given:
            raise InvalidValue("`image_size` and `options` give image_size twice")
        given["image_size"] = image_size
    request = DataRequest(
        name_of(data),
        given,
        label=None if label is None else ",".join(names(label)),
        domain=domain,
        image=image,
        drop=names(drop),
        categorical=names(categorical),
        task=task,
        by=None if by is None else str(by),
        pool_below=pool_below,
        weights_column=weights_column,
    )
    if isinstance(data, str | os.PathLike):
        return request.load(checked_seed(seed), progress)
    if not isinstance(data, DomainDataset | tuple):
        if image is not None:
            raise InvalidValue("`image` is for manifests that are files; write the table to one")
        return request.table(data, TABLE)
    request.refuse_columns(f"`data` is a {type(data).__name__}")
    if given:
        raise InvalidValue("`options` and `image_size` are for files, tables and dataset names")
    if isinstance(data, tuple):
        return from_arrays(*data, task=task)
    if checked_task(task) not in (AUTO, data.kind):
        raise InvalidValue(f"`task={task!r}`, but `data` is loaded already, for {data.kind}")
    return data


def name_of(data: Data) -> str:
    """Return the name of the data, or raise if its type is not supported."""
    if isinstance(data, str):
        return data
    if isinstance(data, os.PathLike):
        path = os.fspath(data)
        return os.path.join(".", path) if path in DATASETS else path  # never a dataset name
    if isinstance(data, DomainDataset):
        return data.name
    import pandas as pd

    if isinstance(data, pd.DataFrame):
        return TABLE
    if isinstance(data, tuple) and len(data) == 3:
        return "arrays"
    raise InvalidValue(
        "`data` must be a dataset name, a path, a pandas DataFrame, the arrays (x, y, domain) or a"
        f" DomainDataset, not {type(data).__name__}"
    )


def names(given: str | Sequence[str]) -> tuple[str, ...]:
    """Return one or several names as a tuple."""
    return (given,) if isinstance(given, str) else tuple(given)


def checked_seed(seed: int, data_seed: int | None = None) -> int:
    """Return `data_seed`, or `seed` if it is None; raise if one is negative."""
    if seed < 0 or (data_seed or 0) < 0:
        raise InvalidValue("`seed` and `data_seed` must be at least 0")
    return seed if data_seed is None else data_seed
