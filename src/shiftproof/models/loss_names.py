"""The names of losses, which `models.risk` defines."""

from __future__ import annotations

from shiftproof.core.errors import InvalidValue, UnknownName
from shiftproof.core.types import CROSS_ENTROPY, SQUARED

ABSOLUTE, HUBER, QUANTILE = "absolute", "huber", "quantile"
NUMBER_LOSSES = (SQUARED, ABSOLUTE, HUBER, QUANTILE)
LOSS_NAMES = (CROSS_ENTROPY, *NUMBER_LOSSES)
# The range of the parameter of each loss.
_RANGES = {HUBER: (0.0, float("inf")), QUANTILE: (0.0, 1.0)}


def parsed_loss(name: str) -> tuple[str, float | None]:
    """Return the kind of a loss and its parameter, given after a colon, or None.

    >>> parsed_loss("squared"), parsed_loss("quantile:0.9")
    (('squared', None), ('quantile', 0.9))
    """
    kind, colon, given = name.partition(":")
    if kind not in LOSS_NAMES:
        raise UnknownName("loss", name, LOSS_NAMES)
    if not colon:
        return kind, None
    if kind not in _RANGES:
        raise InvalidValue(f"`loss` {kind} takes no parameter: use {kind!r} instead of {name!r}")
    low, high = _RANGES[kind]
    try:
        value = float(given)
    except ValueError:
        value = float("nan")
    if not low < value < high:
        raise InvalidValue(
            f"`loss` {kind}: its parameter must lie in ({low:g}, {high:g}), not {given!r}"
        )
    return kind, value
