"""The version of the format in the files that we write, and the check of it in those we read.

JSON objects have it as their first key, safetensors files in their header.  A file without one is
of version 0.1, and is read.  The files of a run share one: `records.jsonl` has that of the
`config.json` beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shiftproof.core.errors import DataError

# Raised when a reader of the last version could not read, or would misread, what is written.
FORMAT = 1
KEY = "format"
_BEFORE = 0  # files of version 0.1


def with_format(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with the version of the format before its other keys."""
    return {KEY: FORMAT, **value}


def without_format(value: Mapping[str, Any], where: object) -> dict[str, Any]:
    """Return an object that was read, without the version, or raise `DataError` if it is newer."""
    found = dict(value)
    check_format(found.pop(KEY, _BEFORE), where)
    return found


def check_format(version: Any, where: object) -> None:
    """Raise `DataError` for a version that this one cannot read, or that is none.

    The header of a safetensors file has it as text; None stands for a file without one.
    """
    if type(version) is int and _BEFORE <= version <= FORMAT:
        return  # nearly always
    text = str(_BEFORE if version is None else version)
    # Not more digits than a version can have: `int` of very many is refused by Python.
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise DataError(f"{where} is damaged: its format is not a version number")
    if int(text) > FORMAT:
        raise DataError(
            f"{where} has format {int(text)}, of a newer version of Shiftproof; this one reads"
            f" formats up to {FORMAT}: upgrade it"
        )
