"""Read files with one JSON value per line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def json_lines(data: bytes) -> Iterator[tuple[Any, bool]]:
    """Yield the value of each line, None if it is not JSON, and whether the line is complete."""
    for line in data.splitlines(keepends=True):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):  # RecursionError: nested too deeply
            value = None
        yield value, line.endswith(b"\n")
