"""Numbers and names in messages."""

from __future__ import annotations

from collections.abc import Sequence

from shiftproof.core.errors import InvalidValue


def plural(noun: str, count: int) -> str:
    """Return a noun in the plural, unless there is one.

    >>> plural("run", 1), plural("class", 2), plural("pair of files", 3)
    ('run', 'classes', 'pairs of files')
    """
    head, of, tail = noun.partition(" of ")
    ending = "" if count == 1 else "es" if head.endswith("s") else "s"
    return f"{head}{ending}{of}{tail}"


def counted(count: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "row"), counted(1200, "training sample")
    ('1 row', '1,200 training samples')
    """
    return f"{count:,} {plural(noun, count)}"


def quoted(text: str) -> str:
    """Return text in quotes, on one line, and cut to 60 characters."""
    return repr(text if len(text) <= 60 else text[:59] + "…")


def listed(names: Sequence[str], most: int = 20) -> str:
    """Return the first ``most`` names in quotes, and how many more there are.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c"], most=1)
    ("'a', 'b', 'c'", "'a' and 2 more")
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(map(quoted, names[:most])) + more


def seconds_of(duration: str | float) -> float:
    """Return a duration such as 30s, 5m or 1.5h in seconds; a plain number counts seconds.

    >>> seconds_of("30s"), seconds_of("5m"), seconds_of("1.5h"), seconds_of(12)
    (30.0, 300.0, 5400.0, 12.0)
    """
    units = {"s": 1, "m": 60, "h": 3600}
    text = str(duration).strip().lower()
    unit = text[-1:] if text[-1:] in units else "s"
    try:
        seconds = float(text.removesuffix(unit)) * units[unit]
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e9:
        raise InvalidValue(f"a time must be like 30s, 5m or 1h, not {duration!r}")
    return seconds
