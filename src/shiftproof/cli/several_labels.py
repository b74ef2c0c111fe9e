"""Several labels for commands that handle one label at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def one_label_each(
    labels: Sequence[str], loading: Mapping[str, Any]
) -> list[tuple[str, dict[str, Any]]]:
    """Return each of several labels with its load settings, in which the other labels are dropped.

    For a single label, return an empty name and the unchanged settings.

    >>> one_label_each(["price", "rent"], {"label": "price,rent", "drop": ["id"]})[1]
    ('rent', {'label': 'rent', 'drop': ['id', 'price']})
    """
    if len(labels) < 2:
        return [("", dict(loading))]
    return [
        (own, {**loading, "label": own, "drop": [*loading["drop"], *others]})
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
