"""Parse durations such as 30s, 5m or 1h."""

from __future__ import annotations

from shiftproof.core.errors import InvalidValue


def seconds_of(duration: str | float, name: str) -> float:
    """Convert a duration such as 30s, 5m or 1.5h to seconds; a plain number is in seconds.

    `name` is the name of the parameter in errors.

    >>> [seconds_of(duration, "budget") for duration in ("30s", "5m", "1.5h", 12)]
    [30.0, 300.0, 5400.0, 12.0]
    """
    units = {"s": 1, "m": 60, "h": 3600}
    text = str(duration).strip().lower()
    unit = text[-1:] if text[-1:] in units else "s"
    try:
        seconds = float(text.removesuffix(unit)) * units[unit]
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e9:
        raise InvalidValue(f"`{name}` must be a time like 30s, 5m or 1h, not {duration!r}")
    return seconds
