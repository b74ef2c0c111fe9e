"""Run commands that handle one label at a time for each of several labels."""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from shiftproof.data.tables.column_names import column_names, header_of


def for_each_label(command: Callable[..., None], *, folder: bool = True) -> Callable[..., None]:
    """Return a command that runs once for each label of a CSV file, joined by commas.

    The results are printed below each other, or with `as_json` as one object by label.  Each label
    has its own files, or with `folder` a subfolder of `out`.
    """

    @functools.wraps(command)
    def run(**settings: Any) -> None:
        labels = _labels_of(**settings)
        if len(labels) < 2:
            return command(**settings)
        default = Path("runs", f"{command.__name__}-{_as_folder(Path(settings['data']).name)}")
        found = {}
        for label in labels:
            one = settings | one_of_several(label, labels, settings)
            if folder:
                one["out"] = (settings["out"] or default) / _as_folder(label)
            if settings.get("as_json"):
                with redirect_stdout(io.StringIO()) as printed:
                    command(**one)
                found[label] = json.loads(printed.getvalue())
            else:
                print(f"--- {label}")
                command(**one)
        if found:
            print(json.dumps(found, ensure_ascii=False))
        return None

    return run


def _labels_of(*, data: str, label: str | None, **_: Any) -> list[str]:
    """Return the label columns that `label` names; empty for data other than CSV files."""
    if label is None or "," not in label or (columns := header_of(Path(data).expanduser())) is None:
        return []
    return list(dict.fromkeys(column_names(columns, Path(data).name, "label", label)))


def one_of_several(label: str, labels: list[str], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changed settings for one of several labels: the other labels are dropped.

    >>> one_of_several("rent", ["price", "rent"], {"drop": ["id"], "picture": Path("shift.png")})
    {'picture': PosixPath('shift-rent.png'), 'label': 'rent', 'drop': ['id', 'price']}
    """
    files = {name: settings[name] for name in ("out", "picture") if settings.get(name) is not None}
    found: dict[str, Any] = {
        name: path.with_stem(f"{path.stem}-{_as_folder(label)}") for name, path in files.items()
    }
    if "no_open" in settings:
        found["no_open"] = True
    others = [name for name in labels if name != label]
    return found | {"label": label, "drop": [*(settings["drop"] or ()), *others]}


def _as_folder(name: str) -> str:
    from shiftproof.api.run_folders import as_folder

    return as_folder(name)
