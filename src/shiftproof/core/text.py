"""Numbers and names in messages."""

from __future__ import annotations

from collections.abc import Sequence


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is one.

    >>> counted(1, "row"), counted(2, "class"), counted(1200, "pair of files")
    ('1 row', '2 classes', '1,200 pairs of files')
    """
    head, of, tail = noun.partition(" of ")
    ending = "" if count == 1 else "es" if head.endswith("s") else "s"
    return f"{count:,} {head}{ending}{of}{tail}"


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
