"""Names that were probably meant to be one."""

from __future__ import annotations

from collections.abc import Iterable


def almost_alike(names: Iterable[str], kind: str) -> list[str]:
    """Return a note for each group of names that differ in case, spaces or signs alone.

    >>> almost_alike(["owl", "Owl", "tit"], "classes")
    ["classes 'Owl', 'owl' are spelt almost alike and count as different ones; is it one?"]
    """
    by_letters: dict[str, list[str]] = {}
    for name in sorted(names):
        letters = "".join(c for c in name.casefold() if c.isalnum())
        by_letters.setdefault(letters or name, []).append(name)
    return [
        f"{kind} {', '.join(map(repr, group[:5]))} are spelt almost alike and count as different"
        " ones; is it one?"
        for group in by_letters.values()
        # Signs tell numbers apart: −1 is not 1, nor 1.5 fifteen.
        if len(group) > 1 and not all(any(c.isdigit() for c in name) for name in group)
    ]
