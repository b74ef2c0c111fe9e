"""Check the user's input before heavy imports, so that errors appear within a second."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from shiftproof.core.errors import DataError
from shiftproof.data.not_data import require_data, require_path
from shiftproof.data.settings import DataSettings
from shiftproof.data.tables.column_names import column_name, column_names, header_of

D = TypeVar("D", bound=DataSettings)


def check_data(data: str, settings: DataSettings) -> list[str]:
    """Raise if the data is missing or unusable, or a CSV file lacks a column.

    What cannot be checked here (a dataset name, Parquet) is checked on loading.  Return the label
    columns, if the data is a CSV file.
    """
    path = require_data(data)
    if not path.is_file() or not path.suffix or (columns := header_of(path)) is None:
        return []
    label = None if settings.label is None else str(settings.label)
    labels = column_names(columns, path.name, "label", label)
    column_names(columns, path.name, "domain", settings.domain)
    vectors = {name.partition("[")[0] for name in columns if name.endswith("]")}
    for name in settings.drop:
        column_names([*columns, *vectors], path.name, "drop", name)
    for name in settings.categorical:
        column_names(columns, path.name, "categorical", name)
    for parameter in ("image", "weights_column"):
        if (only := getattr(settings, parameter)) is not None:
            column_name(columns, path.name, parameter, only)
    return labels


def check_model(run: str, data: str) -> None:
    """Raise if the run or the data does not exist."""
    if not Path(run).expanduser().exists():
        raise DataError(f"no such run or model: {run}")
    require_path(data)


def one_label_each(labels: Sequence[str], settings: D) -> list[tuple[str, D]]:
    """Return each of several labels with its settings, in which the other labels are dropped.

    For a single label, return an empty name and the unchanged settings.

    >>> one_label_each(["price", "rent"], DataSettings(label="price,rent", drop="id"))[1][1].drop
    ('id', 'price')
    """
    if len(labels) < 2:
        return [("", settings)]
    return [
        (own, settings.but(label=own, drop=(*settings.drop, *others)))
        for own in labels
        for others in [[name for name in labels if name != own]]
    ]


def file_of(path: Path | None, label: str) -> Path | None:
    """Return the output file for one of several labels.

    >>> str(file_of(Path("shift.png"), "price")), str(file_of(Path("shift.png"), ""))
    ('shift-price.png', 'shift.png')
    """
    if path is None or not label:
        return path
    from shiftproof.api.run_folders import as_folder

    return path.with_stem(f"{path.stem}-{as_folder(label)}")
