"""Records: the evaluations of a run, one JSON line each, appended as they are made.

They contain nothing that depends on time, so that an interrupted and resumed run ends with the same
bytes as an uninterrupted one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shiftproof.core.errors import RunConflict
from shiftproof.core.files import read_regular, without_links, write_atomically
from shiftproof.core.json_values import json_lines
from shiftproof.core.types import CLASSIFICATION, REGRESSION, Kind

Record = dict[str, Any]

# The measures of a record on each set, by kind of task.  The first is shown first; higher is
# better.
MEASURES: dict[Kind, tuple[str, ...]] = {
    CLASSIFICATION: ("accuracy",),
    REGRESSION: ("r2", "mae", "rmse"),
}
_FIRST = tuple(names[0] for names in MEASURES.values())


def shown_measure(record: Mapping[str, Any]) -> tuple[str, dict[str, float]]:
    """Return the main measure of a record, with its values by set; higher is better."""
    for name in _FIRST:
        if name in record:
            return name, record[name]
    return _FIRST[0], {}


class Records:
    """The records in one file, which may not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, record: Record) -> None:
        """Add one record and wait until it is on disk."""
        with open(self._path, "ab", opener=without_links) as file:
            file.write(_line(record))
            file.flush()
            os.fsync(file.fileno())

    def read(self) -> list[Record]:
        """Return all complete records; a last line cut off by a crash is left out."""
        try:
            data = read_regular(self._path)
        except FileNotFoundError:
            return []
        records: list[Record] = []
        for number, (record, whole) in enumerate(json_lines(data), start=1):
            if not whole:
                break
            if not isinstance(record, dict) or "step" not in record:
                raise RunConflict(
                    f"{self._path} is damaged in line {number}; delete the run to start over"
                )
            records.append(record)
        return records

    def rewind(self, step: int) -> list[Record]:
        """Delete events and records after `step`, which will be written again; return the rest."""
        kept = [r for r in self.read() if r["step"] <= step and "event" not in r]
        data = b"".join(map(_line, kept))
        if not self._path.exists() or self._path.read_bytes() != data:
            write_atomically(self._path, data)
        return kept


def _line(record: Record) -> bytes:
    return json.dumps(record, allow_nan=False, ensure_ascii=False).encode() + b"\n"
