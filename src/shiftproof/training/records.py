"""Records: the evaluations of a run, one JSON line each, appended as they are made.

They contain nothing that depends on time, so that an interrupted and resumed run ends with the same
bytes as an uninterrupted one.  Each line ends with its own CRC-32, so that it can be checked while
the run is unfinished; `done.json` has the SHA-256 of the whole file.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from shiftproof.core.errors import RunConflict
from shiftproof.core.files import read_regular, without_links, write_atomically
from shiftproof.core.json_values import conform
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
            file.write(record_line(record))
            file.flush()
            os.fsync(file.fileno())

    def read(self, sha256: str | None = None) -> list[Record]:
        """Return all complete records; a last line cut off by a crash is left out.

        `sha256` is the hash of the file, if the run has ended.
        """
        try:
            data = read_regular(self._path, sha256)
        except FileNotFoundError:
            return []
        lines = data.split(b"\n")[:-1]
        records: list[Record] = []
        for number, line in enumerate(lines, start=1):
            try:
                records.append(_record(line))
            except (ValueError, RecursionError) as error:  # RecursionError: nested too deeply
                raise RunConflict(
                    f"{self._path} is damaged in line {number} ({error}); delete the run to start"
                    " over"
                ) from error
        return records

    def rewind(self, step: int) -> list[Record]:
        """Delete events and records after `step`, which will be written again; return the rest."""
        remaining = [r for r in self.read() if r["step"] <= step and "event" not in r]
        data = b"".join(map(record_line, remaining))
        if not self._path.exists() or self._path.read_bytes() != data:
            write_atomically(self._path, data)
        return remaining


_CHECKSUM = "crc32"


def record_line(record: Record) -> bytes:
    """Return the line of a record, with its checksum."""
    text = json.dumps(record, allow_nan=False, ensure_ascii=False).encode()
    return b'%b, "%b": %d}\n' % (text[:-1], _CHECKSUM.encode(), zlib.crc32(text))


def _record(line: bytes) -> Record:
    """Return the record of a line; raise `ValueError` if it is damaged."""
    record = json.loads(line)
    if not isinstance(record, dict) or record_line(without_checksum(record)) != line + b"\n":
        raise ValueError("its checksum is wrong")
    record = without_checksum(record)
    check_record(record)
    return record


def without_checksum(record: Record) -> Record:
    """Return a record without the CRC-32 of its line."""
    return {name: value for name, value in record.items() if name != _CHECKSUM}


# The values of a record by name.  Every other name is that of a loss, which is a number.
_BY_SET = Mapping[str, float]
_KINDS: dict[str, Any] = {
    "step": int,
    "event": Literal["diverged"],
    **dict.fromkeys(("accuracy", "r2", "mae", "rmse", "risk"), _BY_SET),
    "members": tuple[Mapping[str, Any], ...],
    "excluded": Mapping[str, str],
    "weights": Mapping[str, Any],
    "shift": Mapping[str, Any],
}
_AMOUNT = dict.fromkeys(("value", "low", "high", "p_value"), float)
_SHIFT = {
    "classes": int,
    "label_entropy": Mapping[str, float],
    **dict.fromkeys(("concept", "covariate"), _AMOUNT),
}
# Steps below this can be read by other programs and placed in a chart.
_LARGEST_STEP = 2**63
# Accuracies of weighted samples are sums with rounding errors.
_LIMITS = {"accuracy": (-1e-6, 1 + 1e-6)} | dict.fromkeys(
    ("risk", "r2", "mae", "rmse"), (-1e300, 1e300)
)


def check_record(record: Any) -> None:
    """Raise `ValueError` unless a value is a valid record."""
    conform(record, Mapping[str, Any], "a record")
    step = record.get("step")
    conform(step, int, "the step of a record")
    if not -_LARGEST_STEP < step < _LARGEST_STEP:
        raise ValueError("the step of a record is too large")
    for name, value in record.items():
        conform(value, _KINDS.get(name, float), f"{name} of step {step}")
    for name in record.keys() & _LIMITS:
        lowest, highest = _LIMITS[name]
        if not all(lowest <= value <= highest for value in record[name].values()):
            raise ValueError(f"{name} of step {step} has values out of range")
    shift: Mapping[str, Any] = record.get("shift") or {}
    if "untested" in shift:
        conform(shift["untested"], str, "shift.untested")
    elif shift:
        conform(shift, _SHIFT, "shift")
