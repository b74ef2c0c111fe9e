"""Check the user's input before heavy imports, so that errors appear within a second."""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, TypeVar

from shiftproof.core.errors import DataError
from shiftproof.data.not_data import require_data, require_path
from shiftproof.data.settings import DataSettings
from shiftproof.data.tables.column_names import column_name, column_names, header_of

D = TypeVar("D", bound=DataSettings)
Run = Callable[[str, D], None]


def check_data(data: str, settings: DataSettings) -> None:
    """Raise if the data is missing or unusable, or a CSV file lacks a column.

    What cannot be checked here (a dataset name, Parquet) is checked on loading.
    """
    path = require_data(data)
    if not path.is_file() or not path.suffix or (columns := header_of(path)) is None:
        return
    column_names(columns, path.name, "label", settings.label)
    column_names(columns, path.name, "domain", settings.domain)
    vectors = {name.partition("[")[0] for name in columns if name.endswith("]")}
    for name in settings.drop:
        column_names([*columns, *vectors], path.name, "drop", name)
    for name in settings.categorical:
        column_names(columns, path.name, "categorical", name)
    for parameter in ("image", "weights_column"):
        if (only := getattr(settings, parameter)) is not None:
            column_name(columns, path.name, parameter, only)


def check_model(run: str, data: str) -> None:
    """Raise if the run or the data does not exist."""
    if not Path(run).expanduser().exists():
        raise DataError(f"no such run or model: {run}")
    require_path(data)


def for_each_label(run: Run[D], *, folder: bool = True) -> Run[D]:
    """Return a command that runs once for each label of a CSV file, joined by commas.

    The results are printed below each other, or with `as_json` as one object by label.  Each label
    has its own files, or with `folder` a subfolder of `out`.
    """

    @functools.wraps(run)
    def run_each(data: str, settings: D) -> None:
        labels = _labels_of(data, settings)
        if len(labels) < 2:
            return run(data, settings)
        from shiftproof.api.run_folders import as_folder

        default = Path("runs", f"{run.__name__}-{as_folder(Path(data).name)}")
        outcomes = {}
        for label in labels:
            others = [name for name in labels if name != label]
            changed: dict[str, Any] = {"label": label, "drop": (*settings.drop, *others)}
            for name in ("out", "picture"):
                if (file := getattr(settings, name, None)) is not None:
                    changed[name] = file.with_stem(f"{file.stem}-{as_folder(label)}")
            if folder:
                changed["out"] = (getattr(settings, "out", None) or default) / as_folder(label)
            if hasattr(settings, "no_open"):
                changed["no_open"] = True
            if getattr(settings, "as_json", False):
                with redirect_stdout(io.StringIO()) as printed:
                    run(data, settings.but(**changed))
                outcomes[label] = json.loads(printed.getvalue())
            else:
                print(f"--- {label}")
                run(data, settings.but(**changed))
        if outcomes:
            print(json.dumps(outcomes, ensure_ascii=False))
        return None

    return run_each


def _labels_of(data: str, settings: DataSettings) -> list[str]:
    """Return the label columns that `label` names; empty for data other than CSV files."""
    label, path = settings.label, Path(data).expanduser()
    if label is None or "," not in label or (columns := header_of(path)) is None:
        return []
    return list(dict.fromkeys(column_names(columns, path.name, "label", label)))
