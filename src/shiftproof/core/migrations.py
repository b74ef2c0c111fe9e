"""The format of stored files, and how files of an older format are read.

All files have one format number: JSON objects as their first key, safetensors files in their
header.  The files of a run share one: that of `config.json` also applies to `records.jsonl`.

Stored names never change within a format, and a new key is left out while it has its default, so a
long run goes on after an update.  Any other change needs a new number, a function in `MIGRATIONS`,
and an example in `tests/golden/formats`.  Files of version 0.1 (formats 0 and 1) are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shiftproof.core.errors import DataError

FORMAT = 2
KEY = "format"
# The oldest format that can be read.
OLDEST = 2
# For each older format, a function that brings an object to the next one.  It gets the kind of the
# object: the name of its file ("config.json"), "archive" (a line of one), "model", "state" (a
# checkpoint or outputs) or "features".
MIGRATIONS: dict[int, Callable[[str, dict[str, Any]], dict[str, Any]]] = {}


def with_format(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with the format number before its other keys."""
    return {KEY: FORMAT, **value}


def current(value: Mapping[str, Any], kind: str, where: object) -> dict[str, Any]:
    """Return an object without its format number, migrated to this format; raise if it cannot be.

    A safetensors header stores the number as text.
    """
    migrated = dict(value)
    for number in range(checked_format(migrated.pop(KEY, None), where), FORMAT):
        migrated = MIGRATIONS[number](kind, migrated)
    return migrated


def checked_format(number: Any, where: object) -> int:
    """Return a format number, or raise `DataError` if files of this format cannot be read."""
    if number is None:
        raise DataError(
            f"{where} has no format number: it was written by Shiftproof 0.1 or by another program;"
            " make it again"
        )
    text = str(number)
    # Limit the digits, because `int` rejects very long strings.
    if isinstance(number, float) or not (text.isascii() and text.isdigit() and len(text) < 10):
        raise DataError(f"{where} is damaged: its format is not a version number")
    if int(text) > FORMAT:
        raise DataError(
            f"{where} has format {int(text)}, of a newer version of Shiftproof; this one reads"
            f" formats up to {FORMAT}: upgrade it"
        )
    if int(text) < OLDEST:
        raise DataError(
            f"{where} was written by Shiftproof 0.1, and this version reads only newer files; make"
            " it again, or install shiftproof 0.1"
        )
    return int(text)
