"""Plain text for a terminal: paragraphs, and rows in columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from shiftproof.core.text import plural

# Names in a table or picture are cut to this many characters.
LONGEST = 14


def more(count: int, thing: str) -> list[str]:
    """Say how many things are not shown, if any."""
    return [f"  … and {count:,} more {plural(thing, count)}"] if count > 0 else []


def columns(
    header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)
) -> Iterator[str]:
    """Yield rows as aligned columns; those in `left` are left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        cells = [
            cell.ljust(width) if position in left else cell.rjust(width)
            for position, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield ("  " + "  ".join(cells)).rstrip()


def wrapped(text: str, width: int, hang: int = 0) -> list[str]:
    """Return a text as lines; all but the first are indented by `hang`."""
    return textwrap.wrap(
        text, width, subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False
    )


def cut(name: str, longest: int = LONGEST) -> str:
    """Shorten a name in its middle, since names that begin alike often end differently.

    >>> cut("hospital of the north", 14), cut("north", 14)
    ('hospita… north', 'north')
    """
    if len(name) <= longest:
        return name
    end = (longest - 1) // 2
    return name[: longest - 1 - end] + "…" + name[-end:]
