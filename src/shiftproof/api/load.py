"""`load`: data by its name, from files or from memory."""

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

# A name or path, a table, the arrays (x, y, domain), or what `load` returned.
Data: TypeAlias = "str | os.PathLike[str] | pd.DataFrame | tuple[Any, Any, Any] | DomainDataset"
# What a table in memory is called, in messages and in the names of runs.
TABLE = "table"


class LoadOptions(TypedDict, total=False):
    """The keywords of `load` that the other verbs take too."""

    label: str | Sequence[str] | None
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
    label: str | Sequence[str] | None = None,
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
    """Return data from several domains, ready for every other function.

    Args:
        data: a dataset name (`shiftproof.DATASETS` lists them); the path of a folder of images
            (`DIR/domain/class/*.jpg`), of a table (CSV or Parquet) or of an image manifest; a
            pandas DataFrame; the arrays `(x, y, domain)`; or a `DomainDataset`, which is returned
            as it is.
        label: label column of a table or manifest; by default the column `label`.  Several, in a
            list or separated by commas, are numbers that are predicted together.
        domain: domain column; by default the column `domain`.  Several, separated by commas, are
            joined.
        image: column with the paths of image files.  It makes the table a manifest.
        drop: columns not to use, in a list or separated by commas.
        categorical: columns whose numbers are codes of categories, in the same way.
        by: how the domain column of a table becomes domains: `year`, `quarter` or `month` of dates,
            a number of bins for numbers, or `value` for as it is.
        pool_below: put domains of fewer rows than this together as one.
        weights_column: column of a table that says how much each row counts when a model is
            trained: numbers of at least 0, where 2 counts as the row given twice and 0 as the row
            left out.  It is not a feature.  Scores count every row alike.
        options: options of the dataset, the images or the table.
        image_size: height and width of the images; 224 by default.
        task: `classification` or `regression`: whether labels are classes or numbers to predict.
            By default the label column decides, and a note says how: text and few whole numbers
            are classes, many numbers or fractions are not, and where both are plausible you are
            asked.
        seed: seed of datasets that are generated at random.
        progress: called with what is being done, how much of it is done, and how much there is.
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
    """Return what data is called, or raise if it is of no known type."""
    if isinstance(data, str):
        return data
    if isinstance(data, os.PathLike):
        path = os.fspath(data)
        return os.path.join(".", path) if path in DATASETS else path  # a path is never a name
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
    """Return one name, or several, as a tuple."""
    return (given,) if isinstance(given, str) else tuple(given)


def checked_seed(seed: int, data_seed: int | None = None) -> int:
    """Return the seed of the data, by default that of everything else."""
    if seed < 0 or (data_seed or 0) < 0:
        raise InvalidValue("`seed` and `data_seed` must be at least 0")
    return seed if data_seed is None else data_seed
