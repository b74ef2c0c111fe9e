"""Find categories in new rows that a model did not learn from and treats as unknown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from shiftproof.core.text import counted, listed, quoted
from shiftproof.data.tables.cell_types import texts
from shiftproof.data.tables.preprocessing import Columns

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

MOST_VALUES = 5


def unseen_notes(columns: Columns, frame: pd.DataFrame) -> Iterator[str]:
    """Yield a note for each column with values that are new or were rare in training."""
    for column in columns.columns:
        if column.kind != "category" or column.name not in frame:
            continue
        codes, names = texts(frame[column.name])
        new = [code for code, name in enumerate(names) if name not in column.values]
        if new:
            rows = int(np.isin(codes, new).sum())
            order = sorted(new, key=lambda code: (-int((codes == code).sum()), names[code]))
            values = listed([names[code] for code in order], MOST_VALUES)
            yield (
                f"column {quoted(column.name)} has values that the model did not learn from, in"
                f" {counted(rows, 'row')}: {values}; it treats them as unknown"
            )
