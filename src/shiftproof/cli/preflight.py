"""Check the user's input before heavy imports, so that errors appear within a second."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shiftproof.core.errors import DataError, InvalidValue, UnknownName, nearest
from shiftproof.core.standardize import checked_standardize
from shiftproof.core.types import checked_class_weight
from shiftproof.data.not_data import require_data, require_path
from shiftproof.data.tables.column_names import column_name, column_names, header_of
from shiftproof.learners.base import ALGORITHMS

# The devices of `training.configure.choose_device`; a colon and a number may follow.
DEVICES = ("auto", "cpu", "cuda", "mps")


def check_data(
    data: str,
    label: str | None = None,
    domain: str | None = None,
    image: str | None = None,
    drop: Sequence[str] | None = None,
    categorical: Sequence[str] | None = None,
    weights_column: str | None = None,
    by: str | None = None,
) -> list[str]:
    """Raise if the data is missing or unusable, or a CSV file lacks a column.

    What cannot be checked here (a dataset name, Parquet) is checked on loading.  Return the label
    columns, if the data is a CSV file.
    """
    if by is not None:
        from shiftproof.data.tables.domain_column import checked_by

        checked_by(by)
    path = require_data(data)
    if not path.is_file() or not path.suffix or (columns := header_of(path)) is None:
        return []
    labels = column_names(columns, path.name, "label", label)
    column_names(columns, path.name, "domain", domain)
    vectors = {name.partition("[")[0] for name in columns if name.endswith("]")}
    for name in drop or ():
        column_names([*columns, *vectors], path.name, "drop", name)
    for name in categorical or ():
        column_names(columns, path.name, "categorical", name)
    for parameter, only in (("image", image), ("weights_column", weights_column)):
        if only is not None:
            column_name(columns, path.name, parameter, only)
    return labels


def check_settings(
    *algorithms: str | None,
    standardize: str = "none",
    class_weight: str = "none",
    task: str = "auto",
    metric: str | None = None,
    steps: int = 1,
    device: str = "auto",
) -> None:
    """Raise if a setting has a value that is invalid for any data."""
    for name in algorithms:
        if name is not None and name not in ALGORITHMS:
            raise UnknownName(ALGORITHMS.kind, name, ALGORITHMS.names())
    checked_standardize(standardize)
    checked_class_weight(class_weight)
    if steps < 1:
        raise InvalidValue(f"`steps` must be at least 1, not {steps}")
    if device.partition(":")[0] not in DEVICES:
        raise UnknownName("device", device, DEVICES)
    # These modules import NumPy, so they are imported only if the setting was given.
    if task != "auto":
        from shiftproof.data.tables.label_kind import checked_task

        checked_task(task)
    if metric is not None:
        from shiftproof.learners.scores import EXPECTED, NUMBER_CARD, TARGETS

        metrics = dict.fromkeys((*EXPECTED, *NUMBER_CARD, *TARGETS))
        if metric not in metrics:
            raise InvalidValue(f"`metric` {metric!r} is unknown; {nearest(metric, metrics)}")


def check_model(run: Path, data: str) -> None:
    """Raise if the run or the data does not exist."""
    if not run.expanduser().exists():
        raise DataError(f"no such run or model: {run}")
    require_path(data)
