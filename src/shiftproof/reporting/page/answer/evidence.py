"""What a page shows besides the outputs of runs: it needs the data, so `study` collects it.

A page is made from runs, which do not contain the data.  `study` has both, and writes what the page
needs from the data to `study.json`: how many inputs are unlike the training data, the most
confident errors, and how columns or images differ between domains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from shiftproof.core.errors import DataError
from shiftproof.core.files import read_json
from shiftproof.core.json_values import conform, conform_fields

STUDY = "study.json"  # in the folder of a study


@dataclass(frozen=True)
class ConfidentError:
    """A sample that the model predicts wrongly; `row` is its number within its domain.

    It has `cells` (names and values as text) or an `image` (a `data:` URL).
    """

    domain: str
    row: int
    label: str
    predicted: str
    probability: float
    cells: Sequence[tuple[str, str]] = ()
    image: str = ""


@dataclass(frozen=True)
class ColumnByDomain:
    """Five quantiles (5, 25, 50, 75, 95%) of a column by domain; None if it has no values there.

    `missing` is the share of missing values.
    """

    name: str
    quantiles: Mapping[str, Sequence[float] | None]
    missing: Mapping[str, float]


@dataclass(frozen=True)
class Evidence:
    """The evidence of a study.

    `noun` is the word for a domain, and `label` the label column.  `far` is the share of inputs of
    each held-out domain that are unlike the training data, None if the model cannot tell.  `images`
    are a few images of each domain, as `data:` URLs.
    """

    noun: str = "domain"
    label: str = ""
    rows: int = 0
    columns: int = 0
    seconds: float = 0.0
    far: Mapping[str, float | None] = field(default_factory=dict)
    errors: Sequence[ConfidentError] = ()
    shifted: Sequence[ColumnByDomain] = ()
    images: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the evidence as JSON values, which `read_evidence` reads."""
        return asdict(self)


_ERROR = {
    "domain": str, "row": int, "label": str, "predicted": str, "probability": float,
    "cells": tuple[tuple[str, ...], ...], "image": str,
}  # fmt: skip
_COLUMN = {
    "name": str,
    "quantiles": Mapping[str, list | None],  # type: ignore[type-arg]
    "missing": Mapping[str, float],
}
_FIELDS = {
    "noun": str, "label": str, "rows": int, "columns": int, "seconds": float,
    "far": Mapping[str, float | None], "errors": tuple[Any, ...], "shifted": tuple[Any, ...],
    "images": Mapping[str, tuple[str, ...]],
}  # fmt: skip


def read_evidence(path: Path) -> Evidence:
    """Read what `study` wrote; raise `DataError` if the file is damaged."""
    value = read_json(path)
    try:
        conform_fields(value, _FIELDS, "the study")
        for position, each in enumerate(value["errors"]):
            conform_fields(each, _ERROR, f"errors[{position}]")
            _require_picture(each["image"])
        for position, each in enumerate(value["shifted"]):
            conform_fields(each, _COLUMN, f"shifted[{position}]")
            _require_quantiles(each)
        for pictures in value["images"].values():
            for picture in pictures:
                _require_picture(picture)
    except ValueError as error:
        raise DataError(f"{path} is damaged ({error}); run the study again") from error
    errors = [
        ConfidentError(**{**each, "cells": tuple((c[0], c[-1]) for c in each["cells"])})
        for each in value["errors"]
    ]
    shifted = [ColumnByDomain(**each) for each in value["shifted"]]
    return Evidence(**{**value, "errors": errors, "shifted": shifted})


def _require_picture(text: str) -> None:
    if text and not text.startswith("data:image/"):
        raise ValueError("a picture is not in the file itself")


def _require_quantiles(column: Mapping[str, Any]) -> None:
    for found in column["quantiles"].values():
        if found is not None:
            conform(found, tuple[float, ...], f"a quantile of {column['name']}")
        if found is not None and not (len(found) == 5 and sorted(found) == found):
            raise ValueError(f"the quantiles of {column['name']} are not five numbers in order")
    if column["quantiles"].keys() != column["missing"].keys():
        raise ValueError(f"the quantiles of {column['name']} do not fit its domains")
