"""Labels of any sortable type, and their names as strings in a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftproof.core.errors import DataError
from shiftproof.core.text import counted, listed
from shiftproof.data.tables.cell_types import text_of


@dataclass(frozen=True)
class Names:
    """Sorted distinct values in their original type, each with its text."""

    values: np.ndarray
    texts: tuple[str, ...]

    @classmethod
    def of(cls, given: Any, what: str) -> tuple[Names, np.ndarray]:
        """Return the distinct entries of `given`, and the index of each entry among them.

        `what` is the name of the parameter in errors.
        """
        import pandas as pd  # type: ignore[import-untyped]

        entries = np.asarray(given)
        if entries.ndim != 1:
            raise DataError(
                f"`{what}` must be [n], one entry per sample, not of shape {entries.shape}"
            )
        missing = np.flatnonzero(pd.isna(entries))
        if len(missing):
            raise DataError(
                f"`{what}` has no value for {counted(len(missing), 'sample')}; the first is"
                f" {what}[{missing[0]}]; fill it or leave the sample out"
            )
        try:
            values, codes = np.unique(entries, return_inverse=True)
        except TypeError:
            types = sorted({type(entry).__name__ for entry in entries})
            raise DataError(
                f"`{what}` mixes {' and '.join(types)}, which cannot be sorted; make them all"
                " strings or all numbers"
            ) from None
        return cls(values, _texts(values, what)), codes

    def to_json(self) -> dict[str, Any]:
        """Return JSON values from which `from_json` rebuilds the names."""
        return {"dtype": self.values.dtype.str, "values": self.values.tolist()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], what: str) -> Names:
        """Rebuild the names from the result of `to_json`."""
        values = np.array(value["values"], dtype=np.dtype(value["dtype"]))
        return cls(values, _texts(values, what))


def _texts(values: np.ndarray, what: str) -> tuple[str, ...]:
    found: dict[str, object] = {}
    for value in values:
        text = text_of(value)
        if text is None:
            raise DataError(
                f"`{what}` holds {str(value)!r}, which means a missing value; rename it"
            )
        if text in found:
            alike = listed([str(found[text]), str(value)])
            raise DataError(
                f"`{what}` holds different values with the same text ({alike}); rename one"
            )
        found[text] = value
    return tuple(found)
