"""Several labels at once, where a command looks at one at a time: each in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def one_label_each(
    labels: Sequence[str], loading: Mapping[str, Any]
) -> list[tuple[str, dict[str, Any]]]:
    """Return each of several labels with what to load for it; the others are no features then.

    A single label is not named: what is to be loaded stays as it is.

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
    """Return the file for one of several labels.

    >>> str(file_of(Path("shift.png"), "price")), str(file_of(Path("shift.png"), ""))
    ('shift-price.png', 'shift.png')
    """
    if path is None or not label:
        return path
    from shiftproof.api.run_folders import as_folder

    return path.with_stem(f"{path.stem}-{as_folder(label)}")
