"""`load`: load data by name, from files or from memory."""

from __future__ import annotations

import os
from typing import Any, TypeAlias

from shiftproof.api.settings import LoadSettings
from shiftproof.core.errors import InvalidValue
from shiftproof.core.settings import keywords
from shiftproof.data.arrays import from_arrays
from shiftproof.data.base import DATASETS, DomainDataset, silent
from shiftproof.data.load import DataRequest
from shiftproof.data.settings import DataSettings
from shiftproof.data.tables.label_kind import AUTO
from shiftproof.data.tables.read import is_frame

# A name or path, a data frame, the arrays (x, y, domain), or the result of `load`.
Data: TypeAlias = "str | os.PathLike[str] | DomainDataset | tuple[Any, Any, Any] | Any"
# The name of an in-memory table, in messages and in the names of runs.
TABLE = "table"


@keywords(LoadSettings)
def load(data: Data, settings: LoadSettings) -> DomainDataset:
    """Load data from several domains, for use with all other functions.

    Args:
        data: a dataset name (listed in `shiftproof.DATASETS`); the path of an image folder
            (`DIR/domain/class/*.jpg`), a table (CSV or Parquet) or an image manifest; a data
            frame (pandas, polars, pyarrow, …); the arrays `(x, y, domain)`; or a
            `DomainDataset`, which is returned unchanged.
    """
    given = settings.all_options()
    request = DataRequest(name_of(data), **settings.given(DataSettings))
    if isinstance(data, str | os.PathLike):
        return request.load(settings.seed, settings.progress or silent)
    if not isinstance(data, DomainDataset | tuple):
        if settings.image is not None:
            raise InvalidValue("`image` is for manifests that are files; write the table to one")
        return request.table(data, TABLE)
    request.refuse_columns(f"`data` is a {type(data).__name__}")
    if given:
        raise InvalidValue("`options` and `image_size` are for files, tables and dataset names")
    if isinstance(data, tuple):
        return from_arrays(*data, task=settings.task)
    if settings.task not in (AUTO, data.kind):
        raise InvalidValue(
            f"`task={settings.task!r}`, but `data` is loaded already, for {data.kind}"
        )
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
    if is_frame(data):
        return TABLE
    if isinstance(data, tuple) and len(data) == 3:
        return "arrays"
    raise InvalidValue(
        "`data` must be a dataset name, a path, a data frame, the arrays (x, y, domain) or a"
        f" DomainDataset, not {type(data).__name__}"
    )
