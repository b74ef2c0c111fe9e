"""Checks of what the user typed before anything heavy is imported: an error takes no second."""

from __future__ import annotations

from collections.abc import Sequence

from shiftproof.data.not_data import require_data
from shiftproof.data.tables.column_names import column_name, domain_columns, header_of


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
    column_name(columns, path.name, "label", label)
    domain_columns(columns, path.name, domain)
    for parameter, given in (("drop", drop or ()), ("categorical", categorical or ())):
        for name in given:
            column_name(columns, path.name, parameter, name)
    for parameter, only in (("image", image), ("weights_column", weights_column)):
        if only is not None:
            column_name(columns, path.name, parameter, only)
