"""Reading what several commands share."""

from __future__ import annotations

from collections.abc import Iterable

from shiftproof.errors import InvalidValue


def parse_assignments(option: str, items: Iterable[str]) -> dict[str, str]:
    """Return {name: value} for items like ``lr=0.001``.

    >>> parse_assignments("--hparam", ["lr=0.001", "order=1"])
    {'lr': '0.001', 'order': '1'}
    """
    values: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not (name and equals and value):
            raise InvalidValue(f"{option} takes name=value, not {item!r}")
        if name in values:
            raise InvalidValue(f"{option} gives {name} twice")
        values[name] = value
    return values
