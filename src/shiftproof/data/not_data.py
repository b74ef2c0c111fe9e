"""Reject what cannot be loaded as data: URLs, empty folders and single images."""

from __future__ import annotations

import re
from pathlib import Path

from shiftproof.core.errors import DataError
from shiftproof.data.images.walk import SUFFIXES


def require_data(data: str) -> Path:
    """Return the path of `data`, or raise an error that says what to pass instead.

    >>> require_data("https://example.org/patients.csv")
    Traceback (most recent call last):
    shiftproof.core.errors.DataError: https://example.org/patients.csv is an address; download ...
    """
    path = require_path(data)
    if path.is_dir() and not any(path.iterdir()):
        raise DataError(f"{data} is an empty folder; give DIR/domain/class/*.jpg, or a table")
    if path.is_file() and path.suffix.lower() in SUFFIXES:
        raise DataError(
            f"{data} is a single image; give a folder DIR/domain/class/*{path.suffix}, or a table"
            " with a column of paths (`image`)"
        )
    return path


def require_path(data: str) -> Path:
    """Return the path of `data`; raise if it does not exist and cannot be a dataset name."""
    if re.match(r"[a-z][a-z0-9+.-]+://", data, re.IGNORECASE):
        raise DataError(f"{data} is an address; download the file, and give its path")
    path = Path(data).expanduser()
    if not path.exists() and (len(path.parts) > 1 or path.suffix):
        raise DataError(f"no such file or folder: {data}")
    return path
