"""Find names that may be two spellings of the same name."""

from __future__ import annotations

from collections.abc import Iterable

from shiftproof.core.text import listed


def letters_of(name: str) -> str:
    """Return the letters and digits of a name in lower case, which its spellings share.

    >>> letters_of("Real World") == letters_of("real_world") == letters_of("RealWorld")
    True
    """
    return "".join(character for character in name.casefold() if character.isalnum())


def similar_names(names: Iterable[str], kind: str) -> list[str]:
    """Return a note for each group of names that differ in case, spaces or punctuation only.

    >>> similar_names(["owl", "Owl", "tit"], "classes")
    ["classes 'Owl', 'owl' differ in case, spaces or punctuation only: possible duplicates"]
    """
    by_letters: dict[str, list[str]] = {}
    for name in sorted(names):
        by_letters.setdefault(letters_of(name) or name, []).append(name)
    return [
        f"{kind} {listed(group, most=5)} differ in case, spaces or punctuation only: possible"
        " duplicates"
        for group in by_letters.values()
        # Punctuation tells numbers apart: −1 is not 1, and 1.5 is not 15.
        if len(group) > 1 and not all(any(c.isdigit() for c in name) for name in group)
    ]
