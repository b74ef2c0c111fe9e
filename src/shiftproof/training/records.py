"""Records: the evaluations of a run, one JSON line each, appended as they are made.

They hold nothing that depends on time, so that an interrupted and resumed run ends with the same
bytes as an uninterrupted one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shiftproof.core.errors import RunConflict
from shiftproof.core.files import write_atomically

Record = dict[str, Any]


def append_record(path: Path, record: Record) -> None:
    """Add one record and wait until it is on disk."""
    with open(path, "ab") as file:
        file.write(_line(record))
        file.flush()
        os.fsync(file.fileno())


def read_records(path: Path) -> list[Record]:
    """Return all complete records; a last line cut off by a crash is left out."""
    return list(_whole_lines(path))


def rewind_records(path: Path, step: int) -> list[Record]:
    """Delete records after `step` and events, which will come again; return those that stay."""
    kept = [r for r in _whole_lines(path) if r["step"] <= step and "event" not in r]
    data = b"".join(map(_line, kept))
    if not path.exists() or path.read_bytes() != data:
        write_atomically(path, data)
    return kept


def _line(record: Record) -> bytes:
    return json.dumps(record, allow_nan=False, ensure_ascii=False).encode() + b"\n"


def _whole_lines(path: Path) -> Iterator[Record]:
    if not path.exists():
        return
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), start=1):
        if not line.endswith(b"\n"):
            return
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not isinstance(record, dict) or "step" not in record:
            raise RunConflict(f"{path} is damaged in line {number}; delete the run to start over")
        yield record
