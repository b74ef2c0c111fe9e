"""Read files with one JSON value per line, much faster than with `json.loads` on each line."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

# Parses the value at a position of a text; returns the value and its end.
scan_value: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
_BETWEEN = secrets.randbits(62)


def json_lines(data: bytes, shared: str = "") -> Iterator[tuple[Any, bool]]:
    """Yield the value of each line, None if it is not JSON, and whether the line is complete.

    Lines are split as by `bytes.splitlines`.  Consecutive objects whose first key is ``shared``
    share one value object for it as long as its text is the same.
    """
    try:
        text = data.decode() if b"\r" not in data else None
    except UnicodeDecodeError:
        text = None
    if text is None:
        for line in data.splitlines(keepends=True):
            yield _value(line), line[-1:] == b"\n"
        return
    if not shared and (values := _of_whole_lines(text)) is not None:
        yield from zip(values, repeat(True), strict=False)
        return
    first, common, same = f'{{"{shared}": ', "", None
    start, length = 0, len(text)
    while start < length:
        stop = text.find("\n", start)
        whole = stop >= 0
        stop = stop if whole else length
        try:
            after = start + len(common)
            if common and text.startswith(common, start) and text[after : after + 1] == '"':
                value, end = scan_value("{" + text[after:stop], 0)
                value.setdefault(shared, same)
                end += after - 1
            else:
                value, end = scan_value(text, start)
                if shared and text.startswith(first, start):
                    same, at = scan_value(text, start + len(first))
                    common = text[start : at + 2] if text[at : at + 2] == ", " else ""
        except (StopIteration, ValueError, RecursionError):
            end = -1
        # The slower parser handles spaces around a value, and a value on several lines.
        yield (value if end == stop else _value(text[start:stop].encode())), whole
        start = stop + 1


def _of_whole_lines(text: str) -> list[Any] | None:
    """Return the values of a text in which each line is complete and holds one value, or None.

    The text is scanned as one list, which creates each key only once.  A random number separates
    the lines: if it is not every second value, some line did not hold exactly one value.
    """
    if not text.endswith("\n"):
        return None
    joined = f"[{text[:-1]}]".replace("\n", f",{_BETWEEN},")
    try:
        values, end = scan_value(joined, 0)
    except (StopIteration, ValueError, RecursionError):
        return None
    lines = text.count("\n")
    one_each = len(values) == 2 * lines - 1 and values[1::2] == [_BETWEEN] * (lines - 1)
    whole = one_each and end == len(joined)
    return values[::2] if whole else None


def _value(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):  # RecursionError: nested too deeply
        return None
