"""Numbers and names in messages."""

from __future__ import annotations

from collections.abc import Sequence


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
