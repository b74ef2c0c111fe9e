"""Checks of what the user typed before anything heavy is imported: an error takes no second."""

from __future__ import annotations

from collections.abc import Sequence

from shiftproof.data.not_data import require_data
from shiftproof.data.tables.column_names import column_name, column_names, header_of


def check_data(
    data: str,
    label: str | None = None,
    domain: str | None = None,
    image: str | None = None,
    drop: Sequence[str] | None = None,
    categorical: Sequence[str] | None = None,
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
    if image is not None:
        column_name(columns, path.name, "image", image)
