"""Checks of what the user typed before anything heavy is imported: an error takes no second."""

from __future__ import annotations

from collections.abc import Sequence

from shiftproof.core.class_weight import checked_class_weight
from shiftproof.core.durations import seconds_of
from shiftproof.core.errors import UnknownName
from shiftproof.core.standardize import checked_standardize
from shiftproof.data.not_data import require_data
from shiftproof.data.tables.column_names import column_name, column_names, header_of
from shiftproof.learners.base import ALGORITHMS


def check_data(
    data: str,
    label: str | None = None,
    domain: str | None = None,
    image: str | None = None,
    drop: Sequence[str] | None = None,
    categorical: Sequence[str] | None = None,
    weights_column: str | None = None,
) -> None:
    """Raise if the data cannot be what was meant, or a column of a CSV file does not exist.

    Whatever this cannot tell (a dataset name, Parquet), loading tells later.
    """
    path = require_data(data)
    if not path.is_file() or not path.suffix or (columns := header_of(path)) is None:
        return
    column_names(columns, path.name, "label", label)
    column_names(columns, path.name, "domain", domain)
    for parameter, given in (("drop", drop or ()), ("categorical", categorical or ())):
        for name in given:
            column_name(columns, path.name, parameter, name)
    for parameter, only in (("image", image), ("weights_column", weights_column)):
        if only is not None:
            column_name(columns, path.name, parameter, only)


def check_settings(
    *algorithms: str | None,
    budget: str | None = None,
    standardize: str = "none",
    class_weight: str = "none",
) -> None:
    """Raise if a setting has a value that no data could make right."""
    for name in algorithms:
        if name is not None and name not in ALGORITHMS:
            raise UnknownName(ALGORITHMS.kind, name, ALGORITHMS.names())
    if budget is not None:
        seconds_of(budget, "budget")
    checked_standardize(standardize)
    checked_class_weight(class_weight)
