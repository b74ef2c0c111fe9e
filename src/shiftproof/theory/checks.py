"""Checks of the arguments of bounds."""

from __future__ import annotations

import math
from collections.abc import Iterable

from shiftproof.core.errors import InvalidValue


def nonnegative(what: str, value: float) -> float:
    """Return `value` if it is at least 0 (infinity is allowed), or raise."""
    if not value >= 0:
        raise InvalidValue(f"{what} must be at least 0, not {value}; clip an estimate at 0")
    return float(value)


def amounts(what: str, values: Iterable[float]) -> list[float]:
    """Return at least one number, all at least 0, or raise."""
    checked = [nonnegative(what, value) for value in values]
    if not checked:
        raise InvalidValue(f"{what} is needed for at least one training domain")
    return checked


def positive(what: str, value: float) -> float:
    """Return `value` if it is finite and above 0, or raise."""
    if not 0 < value < math.inf:
        raise InvalidValue(f"{what} must be above 0 and finite, not {value}")
    return float(value)


def count(what: str, value: int) -> int:
    """Return `value` if it is a whole number of at least 1, or raise."""
    if value != int(value) or value < 1:
        raise InvalidValue(f"the number of {what} must be a whole number above 0, not {value}")
    return int(value)


def check_level(level: float) -> float:
    """Return `level` if it is strictly between 0 and 1, or raise."""
    if not 0 < level < 1:
        raise InvalidValue(f"a probability level must lie strictly between 0 and 1, not {level}")
    return float(level)
