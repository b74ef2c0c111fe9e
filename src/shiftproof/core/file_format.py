"""The format version: written to our files, and checked when reading them.

JSON objects have it as their first key, safetensors files in their header.  A file without one was
written by version 0.1 and can be read.  The files of a run share one version: that of
`config.json` also applies to `records.jsonl`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shiftproof.core.errors import DataError

# Increase this when older versions could not read, or would misread, new files.
FORMAT = 1
KEY = "format"
_BEFORE = 0  # files of version 0.1


def with_format(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with the format version before its other keys."""
    return {KEY: FORMAT, **value}


def without_format(value: Mapping[str, Any], where: object) -> dict[str, Any]:
    """Return an object without its format version, or raise `DataError` if it is not supported."""
    found = dict(value)
    check_format(found.pop(KEY, _BEFORE), where)
    return found


def check_format(version: Any, where: object) -> None:
    """Raise `DataError` if the format version is newer than ours, or not a version number.

    A safetensors header stores it as text; None stands for a file without a version.
    """
    if type(version) is int and _BEFORE <= version <= FORMAT:
        return  # the common case
    text = str(_BEFORE if version is None else version)
    # Limit the digits, because `int` rejects very long strings.
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise DataError(f"{where} is damaged: its format is not a version number")
    if int(text) > FORMAT:
        raise DataError(
            f"{where} has format {int(text)}, of a newer version of Shiftproof; this one reads"
            f" formats up to {FORMAT}: upgrade it"
        )
